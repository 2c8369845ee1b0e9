"""`bidaflow serve` as a process: it follows the champion, outlives MLflow and the end of a replica,
and its page works with a mouse, a keyboard and on a phone."""

import json
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
from playwright.sync_api import Page, expect

from infra.settings import CHECKOUT
from infra.storage.root_format import require_format
from models.squad_metrics import f1
from tasks.evaluation.bootstrap import paired_gain
from tasks.tracking import registry
from tests.factories.browser import browser, new_tab
from tests.factories.cli import (
    BIDAFLOW,
    ONE_WORKER,
    SMALL_VECTORS,
    bidaflow,
    environment_for,
    kill,
    tests_server,
    write_learnable_dataset,
)
from tests.factories.logged_models import wait_for
from tests.factories.ports import free_port
from tests.factories.services import wait
from tests.factories.serving import NAME, OTHER_TEXT, QUESTION, register_untrained
from tests.factories.tracking_store import recording_at

pytestmark = [pytest.mark.heavy, pytest.mark.xdist_group("serve")]

TOKEN = "f" * 32


class Server:
    """A running server with the champion of a dataset, its log and its feedback."""

    def __init__(self, root: Path, *options: str, dataset: str = "made") -> None:
        self.root, self.port = root, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = root / "serve.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [BIDAFLOW, "serve", dataset, "--port", str(self.port), *options],
                env=environment_for(root),
                cwd=CHECKOUT,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_for(f"{self.url}/ping", self.process)

    def version(self) -> str:
        """The version that answers now; fails as a client's request does."""
        response = httpx.post(f"{self.url}/explain", json=QUESTION, timeout=60)
        response.raise_for_status()
        return str(response.json()["version"])

    def promote(self, version: str) -> None:
        with recording_at(f"sqlite:///{self.root}/mlflow.db"):
            registry.set_champion(registry.find_version(f"{NAME}/{version}"))

    def replicas(self) -> list[psutil.Process]:
        """The processes that answer: forks of a child that has imported what they need."""
        children = psutil.Process(self.process.pid).children()
        return [replica for child in children for replica in child.children()]

    def end(self) -> int:
        """Ctrl+C; returns the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(120)


@pytest.fixture(scope="module")
def root(mlflow_tables: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIDAFLOW_ROOT", str(folder))
        require_format()
    with recording_at(f"sqlite:///{folder}/mlflow.db"):
        register_untrained(folder / "model")
    (folder / "feedback").mkdir()
    return folder


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    started = Server(root, "--feedback", str(root / "feedback"))
    yield started
    family = psutil.Process(started.process.pid).children(recursive=True)
    assert started.end() == 0, started.log.read_text()
    _, alive = psutil.wait_procs(family, 30)
    kill(alive)
    assert not alive


def metric(server: Server, name: str) -> float:
    text = httpx.get(f"{server.url}/metrics").text
    return float(next(li.split()[1] for li in text.splitlines() if li.startswith(name)))


def test_follows_the_champion_without_a_failed_request(server: Server) -> None:
    """Each answer names a version that is or was the champion, and changes only once."""
    seen: list[str] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            seen.append(server.version())

    client = threading.Thread(target=ask)
    client.start()
    try:
        server.promote("2")
        wait("version 2", lambda: "2" in seen)
    finally:
        stop.set()
        client.join()
    assert seen == sorted(seen)
    assert metric(server, 'bidaflow_replicas{version="2"}') == 1
    assert metric(server, 'bidaflow_no_answer_count{version="2"}') >= 1


def test_broken_champion_does_not_take_over(server: Server) -> None:
    before = server.version()
    assert metric(server, "bidaflow_follows_champion") == 1
    server.promote("3")
    wait("the failure", lambda: "version 3 can't be served" in server.log.read_text())
    wait("it in the metrics", lambda: metric(server, "bidaflow_follows_champion") == 0)
    assert server.version() == before
    server.promote("1")
    wait("version 1", lambda: server.version() == "1")


def test_killed_replica_is_replaced_without_mlflow(server: Server) -> None:
    """One retry answers: the new process needs no MLflow."""
    before, database = server.version(), server.root / "mlflow.db"
    database.rename(server.root / "away.db")
    try:
        wait("the failure", lambda: metric(server, "bidaflow_follows_champion") == 0)
        (replica,) = server.replicas()
        replica.kill()
        start = time.monotonic()

        def answered() -> str | None:
            with suppress(httpx.TransportError):
                return server.version()
            return None

        assert wait("an answer", answered) == before
        assert time.monotonic() - start < 10
        (other,) = server.replicas()
        assert other.pid != replica.pid
    finally:
        (server.root / "away.db").rename(database)
    wait("the success", lambda: metric(server, "bidaflow_follows_champion") == 1)


def test_log_has_no_texts(server: Server) -> None:
    server.version()
    log = server.log.read_text()
    assert "POST /explain 200" in log
    assert "mill" not in log


@pytest.mark.full
def test_replicas_end_with_a_killed_server(root: Path) -> None:
    (root / "token").write_text(TOKEN)
    server = Server(root, "--host", "0.0.0.0", "--token-file", str(root / "token"))
    assert httpx.post(f"{server.url}/explain", json=QUESTION).status_code == 401
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert httpx.post(f"{server.url}/explain", json=QUESTION, headers=headers).status_code == 200
    family = psutil.Process(server.process.pid).children(recursive=True)
    server.process.kill()
    server.process.wait()
    _, alive = psutil.wait_procs(family, 60)
    kill(alive)
    assert not alive


def ask_on_page(tab: Page, text: dict[str, str]) -> None:
    tab.get_by_label("Passage", exact=True).fill(text["context"])
    tab.get_by_label("Question", exact=True).fill(text["question"])
    tab.get_by_label("Question", exact=True).press("Enter")
    expect(tab.locator("#model")).to_contain_text("Answered by bidaf-made")


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.full)])
def test_page_answers_and_takes_corrections(width: int, server: Server) -> None:
    file = server.root / "feedback" / "feedback.jsonl"
    file.unlink(missing_ok=True)
    reply = httpx.post(f"{server.url}/explain", json=OTHER_TEXT).json()
    best, second = reply["answers"][:2]
    with browser() as opened:
        tab = new_tab(opened, width, 900)
        errors: list[str] = []
        requests: list[str] = []
        tab.on("console", lambda message: errors.append(message.text))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(server.url)
        ask_on_page(tab, OTHER_TEXT)
        passage = tab.locator(".passage")
        assert passage.text_content() == OTHER_TEXT["context"]
        expect(passage.locator("mark")).to_have_text(best["answer"])
        expect(tab.locator(".answer")).to_have_text(best["answer"])
        other = tab.locator(".others button").first
        other.focus()
        tab.keyboard.press("Enter")
        expect(passage.locator("mark")).to_have_text(second["answer"])
        assert_labelled(tab)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        tab.get_by_role("button", name="Wrong").click()
        select(tab, "🏮", last=True)
        expect(tab.locator("#correct")).to_have_value("🏮")
        tab.get_by_role("button", name="Send").click()
        expect(tab.locator("output")).to_contain_text("Thank you")
        assert not errors
        assert all(url.startswith((server.url, "data:")) for url in requests)
    row = json.loads(file.read_text("utf-8"))
    last = OTHER_TEXT["context"].rindex("🏮")
    assert row["answers"] == {"text": ["🏮"], "answer_start": [last]}
    assert (row["right"], row["version"]) == (False, reply["version"])


def select(tab: Page, text: str, last: bool) -> None:
    """Select a text of the passage, as with the mouse."""
    tab.evaluate(
        """([text, last]) => {
            const passage = document.querySelector(".passage");
            const nodes = document.createTreeWalker(passage, NodeFilter.SHOW_TEXT);
            let found;
            while (nodes.nextNode()) {
                if (nodes.currentNode.data.includes(text) && (last || !found)) {
                    found = nodes.currentNode;
                }
            }
            const start = last ? found.data.lastIndexOf(text) : found.data.indexOf(text);
            getSelection().setBaseAndExtent(found, start, found, start + text.length);
            passage.dispatchEvent(new MouseEvent("mouseup"));
        }""",
        [text, last],
    )


def assert_labelled(tab: Page) -> None:
    """All controls have names, which screen readers say."""
    unnamed: Any = tab.evaluate(
        """[...document.querySelectorAll("input, textarea, button, meter")]
            .filter((control) => !(control.labels?.length || control.ariaLabel
                || control.textContent.trim()))
            .map((control) => control.outerHTML)"""
    )
    assert unnamed == []


# The loop from corrected answers to a new champion


def of_new_kind(numbers: range) -> list[dict[str, Any]]:
    """Questions for names of a kind that the training data lack, with their answers."""
    draws = random.Random(numbers.start)
    syllables = ("rud", "kel", "vam", "osi", "tir", "mab", "lun", "fey")
    asked = []
    for number in numbers:
        name = "".join(draws.choices(syllables, k=3)).capitalize()
        context = f"House {number} stands by the river. {name} built it in spring."
        asked.append({"question": "Who built the house?", "context": context, "answer": name})
    return asked


def f1_over_http(server: Server, asked: list[dict[str, Any]]) -> np.ndarray:
    """The F1 of the server's answer to each question, 0 to 100."""
    inputs = [{name: row[name] for name in ("question", "context")} for row in asked]
    reply = httpx.post(f"{server.url}/invocations", json={"inputs": inputs}, timeout=60).json()
    pairs = zip(reply["predictions"], asked, strict=True)
    return np.array([100 * f1(given["answer"], [row["answer"]]) for given, row in pairs])


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_corrected_answers_make_a_better_champion(prefect_server: None, tmp_path: Path) -> None:
    """100 of them raise F1 on other questions of their kind, beyond chance."""
    data, root = write_learnable_dataset(tmp_path / "data"), tmp_path / "root"
    kept = tmp_path / "kept"
    kept.mkdir()
    training = {"epochs": 6, "batch-size": 8, "optimizer": "adam", "learning-rate": 0.005}
    words = ["retrain", f"--data.dataset={data}", "--data.validation-share=0.5", *ONE_WORKER]
    words += ["--variants=baseline", f"--vectors.source={SMALL_VECTORS}"]
    words += ["--training.hidden-size=16", *(f"--training.{n}={v}" for n, v in training.items())]

    def train(*more: str) -> None:
        done = bidaflow(root, *words, *more, **tests_server())
        assert done.returncode == 0, done.stdout + done.stderr

    train()
    server = Server(root, "--feedback", str(kept), dataset="data")
    try:
        unseen = of_new_kind(range(1000, 1060))
        before = f1_over_http(server, unseen)
        for row in of_new_kind(range(100)):
            body = {**row, "right": False, "version": "1"}
            assert httpx.post(f"{server.url}/feedback", json=body).status_code == 201
        train("--data.mix", json.dumps([{"files": [f"{kept}/feedback.jsonl"], "weight": 3}]))
        wait("the new champion", lambda: server.version() == "2")
        gain = paired_gain(before, f1_over_http(server, unseen), np.arange(len(unseen)))
        assert gain.low > 10, gain
    finally:
        server.end()
