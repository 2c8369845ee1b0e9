"""Progress of gensim's training, which is read off the positions in the corpus file."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from infra.progress_reporter import ProgressReporter
from tasks.embeddings.training.word2vec import ReadingProgress


def test_share_read_covers_all_worker_positions(tmp_path: Path) -> None:
    file = tmp_path / "corpus.txt"
    file.write_bytes(b"a" * 1000)
    reporter = ProgressReporter("cbow", 500, "words")
    reading_progress = ReadingProgress(file, 500, lambda model: 0.0, reporter)
    with file.open("rb") as first, file.open("rb") as second:
        second.seek(500)
        assert reading_progress.share_read() == 0
        first.seek(100)
        second.seek(700)
        assert reading_progress.share_read() == pytest.approx(0.3)
        reading_progress.on_epoch_end(SimpleNamespace(epochs=2))
        assert reading_progress.share_read() == 0 and reading_progress.epoch == 1
