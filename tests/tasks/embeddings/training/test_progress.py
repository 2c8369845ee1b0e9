"""Progress reports during training: where they go, how often, and what share is done."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from prefect import flow

from tasks.embeddings.training import progress
from tasks.embeddings.training.progress import REPORT_SECONDS, Progress
from tasks.embeddings.training.word2vec import ReadingProgress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that shows the time in its field `now`."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def test_shows_share_rate_and_time_left(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    progress_line = Progress("glove", 200_000, "pairs")
    progress_line.report(0, always=True)
    clock.now += REPORT_SECONDS - 1
    progress_line.report(10_000)
    clock.now = 110
    progress_line.report(50_000, ", epoch 1 of 4")
    progress_line.report(60_000)
    progress_line.report(200_000, always=True)
    assert capsys.readouterr().out.splitlines() == [
        "glove: 25%, 5,000 pairs/s, epoch 1 of 4, 0:30 left",
        "glove: 100%, 20,000 pairs/s",
    ]
    unbounded = Progress("corpus", 0, "words")
    clock.now += 10
    unbounded.report(30)
    assert capsys.readouterr().out == "corpus: 3 words/s\n"


@flow
def training() -> None:
    """Reports progress from another thread, as the watcher of gensim does."""
    thread = threading.Thread(target=Progress("cbow", 100, "words").report, args=(50, "", True))
    thread.start()
    thread.join()


def test_progress_is_written_to_the_run_log(
    root: Path,
    prefect_server: None,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    training()
    (line,) = (record for record in caplog.records if record.getMessage().startswith("cbow: 50%"))
    assert line.name == "prefect.flow_runs"
    assert "cbow" not in capsys.readouterr().out


def test_share_read_covers_all_worker_positions(tmp_path: Path) -> None:
    file = tmp_path / "corpus.txt"
    file.write_bytes(b"a" * 1000)
    reading_progress = ReadingProgress(file, 500, lambda model: 0.0, Progress("cbow", 500, "words"))
    with file.open("rb") as first, file.open("rb") as second:
        second.seek(500)
        assert reading_progress.share_read() == 0
        first.seek(100)
        second.seek(700)
        assert reading_progress.share_read() == pytest.approx(0.3)
        reading_progress.on_epoch_end(SimpleNamespace(epochs=2))
        assert reading_progress.share_read() == 0 and reading_progress.epoch == 1
