"""The commands in the documentation, run as printed, and the output that the README shows.

They run in two folders that have what the text assumes: one in which only the README's first
command ran, and one with the user's own files. Commands whose comment speaks of hours are not run,
nor are those that run these tests.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from infra.settings import CHECKOUT
from tasks.tracking import registry
from tests.factories.cli import environment_for, write_dataset
from tests.factories.documents import CLUSTER_WALK, shell_lines
from tests.factories.ports import free_port
from tests.factories.tracking_store import recording_at

pytestmark = [pytest.mark.full, pytest.mark.heavy, pytest.mark.timeout(3600)]

NOT_RUN = re.compile(
    r"#.*\bhours?\b|^make (?:install|quick|test|test-all)\b|^\. |=ROOT\b|OUT_FOLDER|TYPE/NAME"
    r"|^export .*://|s3://|workers 4\b|wiki-|^xz |feedback\.jsonl|\btrain\.json"
    r"|\bHOST\b|/team\b|random\.txt"
)
"""Commands that take hours, run these tests, only change the shell, have a placeholder, or need a
store, a cluster, or files that only other commands in this list write."""
OWN_FILES = re.compile(
    r"questions|folder/|tickets?\b|(?:texts|manuals)/|support|\b[ab]\.json|token\b|new\.json"
)
"""Commands that need the user's own files, models or vectors."""
SERVERS = {
    "bidaflow up": "Ctrl-C here",
    "bidaflow serve": "Answers and a page at",
    "mlflow models serve": "Uvicorn running",
    "mlflow server": "Uvicorn running",
}
"""Commands that run until the page ends, and what they print when they are ready."""
PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in (CHECKOUT / "docs").glob("*.md"))]


def commands(page: str) -> list[str]:
    """The commands of a page that are run, in order."""
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    lines = shell_lines(CLUSTER_WALK.sub("", text))
    return [line for line in lines if not NOT_RUN.search(line)]


class Folder:
    """A working folder with the environment, the Makefile, and its own `.bidaflow`."""

    def __init__(self, path: Path, mirror: Path) -> None:
        path.mkdir()
        self.path, self.servers = path, ExitStack()
        self.done: dict[str, str] = {}  # the outputs of the commands that were run
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            (path / name).symlink_to(CHECKOUT / name)
        (path / ".venv").symlink_to(sys.prefix)
        ports = (4200, 4300, 5000, 5001, 5002, 5300)
        self.ports = {str(port): str(free_port()) for port in ports}
        self.environment = environment_for(
            path / ".bidaflow",
            BIDAFLOW_PREFECT_PORT=self.ports["4200"],
            BIDAFLOW_MLFLOW_PORT=self.ports["5000"],
            BIDAFLOW_MIRROR=str(mirror),
            PATH=f"{path}/.venv/bin:{os.environ['PATH']}",
            HOME=str(path),
        )

    def run(self, command: str) -> str:
        """Run a command as printed, apart from its ports; returns its output."""
        for port, own in self.ports.items():
            command = re.sub(rf"\b{port}\b", own, command)
        for server, ready in SERVERS.items():
            if f"{server} " in f"{command} ":
                self.servers.enter_context(self.serving(command, ready))
                return ""
        if command in self.done:
            return self.done[command]
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.path,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=3000,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        assert "Traceback" not in done.stderr, done.stderr[-3000:]
        self.done[command] = done.stdout
        return done.stdout

    @contextmanager
    def serving(self, command: str, ready: str) -> Iterator[None]:
        """Run a server until the block ends; wait until it prints that it is ready."""
        with subprocess.Popen(
            ["bash", "-c", f"exec env {command}"],
            cwd=self.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            lines: list[str] = []
            while not lines or ready not in lines[-1]:
                lines.append(process.stdout.readline())
                assert lines[-1], f"{command} ended: {''.join(lines)}"
            reading = Thread(target=process.stdout.read)  # so that the server never blocks
            reading.start()
            try:
                yield
            finally:
                process.terminate()
                process.wait(300)
                reading.join()


@pytest.fixture(scope="module")
def tiny(
    tmp_path_factory: pytest.TempPathFactory, shared_data: Path
) -> Iterator[tuple[Folder, str]]:
    """The folder in which the README's first command ran, and what the command printed."""
    folder = Folder(tmp_path_factory.mktemp("documented") / "tiny", shared_data)
    with folder.servers:
        yield folder, folder.run("make retrain")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Iterator[Folder]:
    """The folder with the user's own files, and two champions of `tickets`, one after the other."""
    folder = Folder(tmp_path_factory.mktemp("documented") / "own", shared_data)
    data = write_dataset(folder.path / "folder", train=8, contexts=4)
    for name in ("questions.json", "tickets.json", "a.json"):
        shutil.copyfile(data / "train.json", folder.path / name)
    shutil.copyfile(data / "dev.json", folder.path / "b.json")
    shutil.copyfile(data / "dev.json", folder.path / "tickets-2026-11.json")
    (folder.path / "tickets").mkdir()
    write_dataset(folder.path / "more", train=2)
    shutil.copyfile(folder.path / "more" / "train.json", folder.path / "tickets" / "mixed.json")
    paragraphs = [
        paragraph["context"]
        for article in json.loads((data / "train.json").read_text(encoding="utf-8"))["data"]
        for paragraph in article["paragraphs"]
    ]
    for name in ("texts", "manuals"):
        (folder.path / name).mkdir()
        (folder.path / name / "all.txt").write_text("\n".join(20 * paragraphs), encoding="utf-8")
    (folder.path / "ticket.txt").write_text(paragraphs[0], encoding="utf-8")
    with folder.servers:
        folder.run("bidaflow retrain --data.dataset tickets.json --training.epochs 1")
        folder.run("bidaflow embeddings train --corpus.files texts/ --name support")
        for number in (1, 2):
            with recording_at(f"sqlite:///{folder.path}/.bidaflow/mlflow.db"):
                version = registry.find_version(f"models:/bidaf-tickets/{number}")
                registry.set_champion(version)
        yield folder


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_work(page: str, tiny: tuple[Folder, str], own: Folder) -> None:
    for command in commands(page):
        folder = own if OWN_FILES.search(command) else tiny[0]
        folder.run(command)
    for folder in (tiny[0], own):
        folder.servers.close()


def test_first_run_prints_the_scores_of_the_readme(tiny: tuple[Folder, str]) -> None:
    text = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    shown = {row[0]: row[1:] for row in re.findall(r"^\| `(\w+)` \| (\S+) \| (\S+) ", text, re.M)}
    assert set(shown) == {"baseline", "char"}
    for variant, scores in shown.items():
        (printed,) = re.findall(rf"│ {variant} +│ +(\S+) │ +(\S+) ", tiny[1])
        for expected, actual in zip(scores, printed, strict=True):
            assert float(actual) == pytest.approx(float(expected), abs=6), "other processors"


def test_ask_prints_what_the_readme_shows(tiny: tuple[Folder, str]) -> None:
    (ask,) = [command for command in commands("README.md") if 'ask "Which' in command]
    text = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```\n(\S+ %.*?)^```$", text, re.MULTILINE | re.DOTALL)
    printed = tiny[0].run(ask)
    (expected, *rest), (probability, *same) = (
        re.sub(r"version \d+", "version N", output).split("%", 1) for output in (shown, printed)
    )
    assert same == rest
    assert float(probability) == pytest.approx(float(expected), abs=10)


def test_some_commands_of_each_kind_are_run() -> None:
    run = [command.split()[:2] for page in PAGES for command in commands(page)]
    for words in (
        ["make", "retrain"],
        *(["bidaflow", name] for name in ("retrain", "ask", "check", "up", "compare", "diff")),
        *(["bidaflow", name] for name in ("embeddings", "lineage", "rollback", "prune")),
    ):
        assert words in run, words
