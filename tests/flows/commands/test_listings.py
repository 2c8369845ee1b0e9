"""`bidaflow datasets`, run in a terminal of 24 lines and 80 columns."""

from pathlib import Path

import pytest
from rich.cells import cell_len

from flows.commands.listings import KNOWN
from tests.factories.cli import bidaflow


def test_overview_fits_one_screen(root: Path) -> None:
    done = bidaflow(root, "datasets", COLUMNS="80")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) < 24  # the prompt takes one, too
    assert max(map(cell_len, lines)) <= 80
    assert "…" not in done.stdout
    rows = {line.split()[0]: line for line in lines if line}
    assert rows.keys() >= KNOWN.keys()
    assert "generated" in rows["tiny"]
    assert "98,169 questions" in rows["squad-v1.1"] and "35.1 MB" in rows["squad-v1.1"]
    assert lines[-1] == "Details    bidaflow datasets NAME"


def test_details_show_licence_citation_and_files(root: Path) -> None:
    done = bidaflow(root, "datasets", "squad-v1.1", "RW", COLUMNS="80")
    assert done.returncode == 0, done.stderr
    for expected in ("CC BY-SA", "Rajpurkar et al. 2016", "train-v1.1.json", "EN-RW-STANFORD"):
        assert expected in done.stdout
    assert "squad-v2.0" not in done.stdout


def test_unknown_name_gets_a_suggestion(root: Path) -> None:
    done = bidaflow(root, "datasets", "squad-v1")
    assert done.returncode == 1
    assert "Unknown dataset 'squad-v1'. Did you mean 'squad-v1.1'?" in done.stderr


@pytest.mark.parametrize("name", KNOWN)
def test_contents_fit_their_column(name: str) -> None:
    assert 0 < len(KNOWN[name].contents) <= 22
