"""Progress of work: the time left, and how often and where it is shown."""

import io
import re
import threading
from types import SimpleNamespace

import pytest
from prefect import flow
from rich.console import Console

from infra.progress import Progress
from infra.reporting import progress_artifact, progress_reporter
from infra.reporting.progress_reporter import LINE_SECONDS, ProgressReporter
from tests.factories.prefect_artifacts import artifacts


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that shows the time in its field `now`."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(progress_reporter, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that are logged outside of runs."""
    lines: list[str] = []
    monkeypatch.setattr(progress_reporter, "logger", lambda: SimpleNamespace(info=lines.append))
    return lines


def test_shows_share_rate_and_time_left(clock: SimpleNamespace, logged: list[str]) -> None:
    with ProgressReporter("glove", 200_000, "pairs") as reporter:
        clock.now += LINE_SECONDS - 1
        reporter.report(10_000)
        clock.now = 110
        reporter.report(50_000, "epoch 1 of 4")
        reporter.report(60_000)
        reporter.report(200_000, always=True)
    assert logged == [
        "glove: 25%, 5,000 pairs/s, epoch 1 of 4, 0:30 left",
        "glove: 100%, 20,000 pairs/s",
    ]
    with ProgressReporter("corpus", None, "words") as unbounded:
        clock.now += 10
        unbounded.report(30)
    assert logged[-1] == "corpus: 3 words/s"


def test_bytes_are_shown_as_megabytes(clock: SimpleNamespace, logged: list[str]) -> None:
    with ProgressReporter("a.zip", 4e6, done_before=1e6) as reporter:
        clock.now += 10
        reporter.report(2e6)
        reporter.total = None
        reporter.report(2e6, always=True)
    assert logged == [
        "a.zip: 2.0 MB of 4.0 MB (50 %), 0.1 MB/s, 0:20 left",
        "a.zip: 2.0 MB, 0.1 MB/s",
    ]


@pytest.mark.parametrize(
    ("done", "total", "left"),
    [(100, 101.4, "0:01 left"), (1, 3600, "59:59 left"), (1, 7386, "2:03:05 left")],
)
def test_time_left_has_hours_if_needed(done: float, total: float, left: str) -> None:
    assert Progress("work", done, total, "units", 1.0, "").time_left == left


@pytest.mark.parametrize(("total", "rate"), [(None, 1.0), (0, 1.0), (9, 0.0), (5, 1.0)])
def test_time_left_may_be_unknown(total: float | None, rate: float) -> None:
    assert Progress("work", 5, total, "units", rate, "").time_left == ""


@flow
def working(name: str) -> None:
    """Reports progress from another thread, as the watcher of gensim and Ray's workers do."""
    with ProgressReporter(name, 100, "words") as reporter:
        thread = threading.Thread(target=reporter.report, args=(50, "", True))
        thread.start()
        thread.join()


@pytest.mark.usefixtures("root", "prefect_server")
def test_run_log_and_prefect_show_the_progress(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    working("short")
    assert artifacts("progress-short") == []
    monkeypatch.setattr(progress_artifact, "SECONDS_BETWEEN", 0.0)
    caplog.clear()
    working("Big words.txt")
    (line,) = (record for record in caplog.records if "words/s" in record.getMessage())
    assert line.name == "prefect.flow_runs"
    (artifact,) = artifacts("progress-big-words-txt")
    assert artifact["flow_run_id"] is not None
    assert artifact["data"] == 100, "the work is done when its block ends"
    shown = r"Big words.txt: 100%, done in \d+ s"
    assert re.fullmatch(shown, artifact["description"]), "and not the time left"


@pytest.mark.parametrize("terminal", [True, False])
def test_terminal_shows_bars_instead_of_lines(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace, logged: list[str]
) -> None:
    drawn = io.StringIO()
    console = Console(file=drawn, force_terminal=terminal, force_interactive=terminal, width=80)
    monkeypatch.setattr(progress_reporter, "log_console", lambda: console)
    with ProgressReporter("one", 100, "words") as one, ProgressReporter("two", 9, "words") as two:
        clock.now += 10
        one.report(50)
        two.report(3)
        two.report(9, "loss 2.5", always=True)
        if terminal:
            progress_reporter._bars_on(console).refresh()
    always = "two: 100%, 1 words/s, loss 2.5"
    if terminal:
        assert logged == [always]
        for text in ("one", "50%, 5 words/s, 0:10 left", "two", "100%, 1 words/s, loss 2.5"):
            assert text in drawn.getvalue()
    else:
        assert drawn.getvalue() == ""
        assert logged == [
            "one: 50%, 5 words/s, 0:10 left",
            "two: 33%, 0 words/s, 0:20 left",
            always,
        ]
