"""A user error in a real flow run: one sentence in its state, in its log and on the terminal."""

import json
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging.configuration import setup_logging

from flows.common.parameters import DataParameters
from flows.common.user_errors import result_or_exit, told_in_a_sentence
from flows.ingest import ingest
from infra.artifacts.stage import REFUSED
from infra.errors import UserError
from tasks.datasets import catalog, download
from tasks.datasets.catalog import Dataset
from tasks.datasets.fetch import Source

pytestmark = pytest.mark.usefixtures("prefect_server", "root")

SENTENCE = "The mill has no door: give it one."


@flow(name="refusing")
@told_in_a_sentence
def refusing(mistake: bool = True) -> str:
    if mistake:
        raise UserError(SENTENCE)
    return "done"


@flow(name="breaking")
@told_in_a_sentence
def breaking() -> None:
    raise RuntimeError("out of paper")


@pytest.fixture
def log() -> Iterator[list[str]]:
    """Log lines of flow runs and task runs, formatted as printed."""
    setup_logging()
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(handler.format(record))  # type: ignore[method-assign]
    loggers = [logging.getLogger(name) for name in ("prefect.flow_runs", "prefect.task_runs")]
    for logger in loggers:
        logger.addHandler(handler)
    yield lines
    for logger in loggers:
        logger.removeHandler(handler)


def exit_of(state: State[Any]) -> Any:
    with pytest.raises(SystemExit) as ended:
        result_or_exit(state)
    return ended.value.code


def test_user_error_reaches_state_log_and_terminal(log: list[str]) -> None:
    state = refusing(return_state=True)
    assert (state.name, state.message, state.is_failed()) == (REFUSED, SENTENCE, True)
    assert SENTENCE in log
    assert not any("Traceback" in line for line in log)
    assert exit_of(state) == f"\n{SENTENCE}"


def test_successful_flow_returns_its_result() -> None:
    assert result_or_exit(refusing(mistake=False, return_state=True)) == "done"


def test_other_errors_keep_their_traceback(log: list[str]) -> None:
    state = breaking(return_state=True)
    assert state.name == "Failed"
    assert any("Traceback" in line and "out of paper" in line for line in log)
    with pytest.raises(RuntimeError, match="out of paper"):
        result_or_exit(state)


def test_wrapped_flow_keeps_its_parameters() -> None:
    assert set(refusing.parameters.properties) == {"mistake"}
    assert refusing.fn.__name__ == "refusing"


def ingesting(path: Path) -> State[Any]:
    return ingest(DataParameters(dataset=str(path)), return_state=True)


def test_missing_data_is_rejected(tmp_path: Path, log: list[str]) -> None:
    state = ingesting(tmp_path / "nowhere")
    assert state.name == REFUSED
    assert str(tmp_path / "nowhere") in exit_of(state)
    assert not any("Traceback" in line for line in log)


def test_stage_error_becomes_the_flow_error(tmp_path: Path, root: Path, log: list[str]) -> None:
    answer = {"text": "mill", "answer_start": "here"}
    asked = {"id": "q1", "question": "What?", "answers": [answer]}
    article = {"title": "Mills", "paragraphs": [{"context": "The mill.", "qas": [asked]}]}
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps({"data": [article, article]}))
    state = ingesting(broken)
    assert state.name == REFUSED
    assert all(part in exit_of(state) for part in (str(broken), "Mills", "q1", "answer_start"))
    assert not any("Traceback" in line for line in log)
    assert not list((root / "stages" / "ingest").iterdir())


def test_rejects_splitting_a_single_article(tmp_path: Path) -> None:
    asked = {"id": "q1", "question": "What?", "answers": [], "is_impossible": True}
    article = {"title": "Mills", "paragraphs": [{"context": "The mill.", "qas": [asked]}]}
    (tmp_path / "one.json").write_text(json.dumps({"data": [article]}))
    assert "one article" in exit_of(ingesting(tmp_path / "one.json"))


def test_unreachable_host_gives_a_user_error(
    monkeypatch: pytest.MonkeyPatch, root: Path, log: list[str]
) -> None:
    monkeypatch.delenv("BIDAFLOW_MIRROR", raising=False)
    monkeypatch.setattr(download, "BACK_OFF_SECONDS", 0.01)
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, but not listening
        url = f"http://127.0.0.1:{held.getsockname()[1]}/made.json"
        source = Source(name="made.json", sha256="0" * 64, url=url)
        made = Dataset(name="made", about="", licence="", train=source, dev=source)
        monkeypatch.setitem(catalog.DATASETS, "made", made)
        state = ingest(DataParameters(dataset="made"), return_state=True)
    told = exit_of(state)
    assert url in told and "by hand" in told and "BIDAFLOW_MIRROR" in told
    assert len([line for line in log if "trying again" in line]) == download.ATTEMPTS - 1
    assert not any("Traceback" in line for line in log)


@pytest.mark.heavy
def test_timed_out_flow_is_not_retried() -> None:
    tries = []

    @flow(name="idling", timeout_seconds=3, retries=2)
    @told_in_a_sentence
    def idling() -> None:
        tries.append(time.monotonic())
        for _ in range(600):
            time.sleep(0.1)  # the timeout is raised only after a call returns

    state = idling(return_state=True)
    assert (state.name, len(tries)) == ("TimedOut", 1)
