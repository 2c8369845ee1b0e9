"""Batches, the queue, and new versions."""

import asyncio
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.serving import replica as replica_module
from tasks.serving.replica import Replica, publish
from tasks.serving.served_model import ModelRequest, ServedModel
from tests.factories.logged_models import CONTEXT
from tests.factories.services import wait
from tests.factories.serving import NAME, QUESTION, client, serve_untrained

PAIR = (QUESTION["question"], CONTEXT)
REQUEST = ModelRequest([PAIR])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return serve_untrained(tmp_path / "versions")


class Gate:
    """Holds up the batches of a model, and notes their sizes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.sizes: list[int] = []
        answer = ServedModel.answer

        def held_up(model: ServedModel, requests: Any) -> Any:
            self.sizes.append(len(requests))
            assert self.open.wait(60)
            return answer(model, requests)

        monkeypatch.setattr(ServedModel, "answer", held_up)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.open.set()


def test_all_that_wait_are_answered_together(folder: Path, gate: Gate) -> None:
    """The first one does not wait for others; those that come meanwhile form a batch, whatever each
    of them wants. Answers are those of single requests."""
    replica = Replica(folder)
    wishes = [REQUEST, ModelRequest([PAIR, ("", "")], top=3), ModelRequest([PAIR, PAIR])]

    async def ask() -> list[Any]:
        first = asyncio.create_task(replica.answer(REQUEST))
        while not gate.sizes:
            await asyncio.sleep(0.01)
        others = [asyncio.create_task(replica.answer(wish)) for wish in wishes]
        await asyncio.sleep(0)
        gate.open.set()
        return await asyncio.gather(first, *others)

    replies = [answers for _, answers in asyncio.run(ask())]
    assert gate.sizes == [1, 3]
    alone = [replica.model.answer([wish])[0] for wish in (REQUEST, *wishes)]
    assert [[len(rows) for rows in reply] for reply in replies] == [[1], [1], [3, 1], [1, 1]]
    for reply, expected in zip(replies, alone, strict=True):
        for rows, others in zip(reply, expected, strict=True):
            for row, other in zip(rows, others, strict=True):
                assert row == pytest.approx(other)


def test_full_queue_and_long_waits_get_status_503(
    folder: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_module, "LONGEST_QUEUE", 2)
    monkeypatch.setattr(replica_module, "LONGEST_WAIT", 1.0)
    server = client(folder)
    responses: list[Any] = []

    def ask() -> None:
        responses.append(server.post("/explain", json=QUESTION))

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [response.status_code for response in responses] == [503] * 5
    assert {response.headers["retry-after"] for response in responses} == {"1"}
    monkeypatch.setattr(replica_module, "LONGEST_WAIT", 60.0)
    gate.open.set()
    # Until the requests that were given up have left the queue, it is full.
    wait("an answer", lambda: server.post("/explain", json=QUESTION).status_code == 200)
    assert sum(gate.sizes) < 5  # requests that were given up are not answered


def test_failed_batch_is_no_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Replica(folder)
    with monkeypatch.context() as broken:
        broken.setattr(ServedModel, "answer", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            asyncio.run(replica.answer(REQUEST))
    model, _ = asyncio.run(replica.answer(REQUEST))
    assert model.version == "1"


def test_new_version_takes_over(folder: Path) -> None:
    server = client(folder)
    replica = server.app.app.state.replica  # type: ignore[attr-defined]
    shutil.copytree(folder / "saved", folder / "second")
    publish(folder, folder / "second", NAME, "2")
    assert server.post("/explain", json=QUESTION).json()["version"] == "1"
    replica.update()
    assert server.post("/explain", json=QUESTION).json()["version"] == "2"
    metrics = server.get("/metrics").text
    assert 'bidaflow_replicas{version="2"} 1.0' in metrics
    publish(folder, folder / "missing", NAME, "3")
    with pytest.raises(Exception, match="version 3 can't be served"):
        replica.update()
    assert server.post("/explain", json=QUESTION).json()["version"] == "2"


def test_metrics_tell_what_was_asked(folder: Path) -> None:
    publish(folder, folder / "saved", NAME, "metrics")
    server = client(folder)
    unknown = {"question": "Where is Xyzzy?", "context": "Xyzzy is by the mill."}
    server.post(
        "/invocations", json={"inputs": [unknown, unknown, {"question": "", "context": ""}]}
    )
    text = server.get("/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    def value(name: str) -> float:
        return float(values[f'{name}{{version="metrics"}}'])

    for measure in ("no_answer", "answer_probability", "oov_share", "context_characters"):
        assert value(f"bidaflow_{measure}_count") == 2
    assert 0 < value("bidaflow_oov_share_sum") < 2
    assert value("bidaflow_context_characters_sum") == 2 * len(unknown["context"])
    assert 0 < value("bidaflow_answer_probability_sum") <= 2
    assert float(values["bidaflow_model_seconds_sum"]) > 0
    assert float(values['bidaflow_requests_total{door="/invocations",status="200"}']) >= 1


def test_answers_go_on_while_a_version_is_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = client(folder)
    replica = server.app.app.state.replica  # type: ignore[attr-defined]
    load, loading = ServedModel.load, threading.Event()

    def slowly(*arguments: Any) -> ServedModel:
        loading.set()
        time.sleep(1)
        return load(*arguments)

    monkeypatch.setattr(ServedModel, "load", slowly)
    publish(folder, folder / "saved", NAME, "2")
    update = threading.Thread(target=replica.update)
    update.start()
    assert loading.wait(10)
    assert server.post("/explain", json=QUESTION).json()["version"] == "1"
    assert update.is_alive()
    update.join()
    assert server.post("/explain", json=QUESTION).json()["version"] == "2"
