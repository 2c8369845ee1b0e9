"""The lists of `bidaflow datasets` and `bidaflow variants`, in a terminal of 80 columns."""

import json
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from flows.commands.listings import KNOWN, datasets, variants
from infra.errors import UserError
from models.configs.presets import PRESETS


@pytest.fixture(autouse=True)
def terminal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_overviews_fit_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    for show, names in ((datasets, KNOWN), (variants, PRESETS)):
        show()
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) < 24  # the prompt takes one, too
        assert max(map(cell_len, lines)) <= 80 and "…" not in "".join(lines)
        rows = {line.split()[0]: line for line in lines if line}
        assert rows.keys() >= names.keys()
        assert lines[-1] == f"Details    bidaflow {show.__name__} NAME"
    assert re.search(r"char-selfattn-v1 +yes +100 +no +elementwise +30 +32 +30", "\n".join(lines))


def test_datasets_have_contents_and_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    datasets()
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert "generated" in rows["tiny"]
    assert "98,169 questions" in rows["squad-v1.1"] and "35.1 MB" in rows["squad-v1.1"]
    assert all(0 < len(entry.contents) <= 22 for entry in KNOWN.values())


def test_details_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    datasets(("squad-v1.1", "RW"))
    shown = capsys.readouterr().out
    for expected in ("CC BY-SA", "Rajpurkar et al. 2016", "train-v1.1.json", "EN-RW-STANFORD"):
        assert expected in shown
    assert "squad-v2.0" not in shown
    variants(("kim-char",))
    settings = json.loads(capsys.readouterr().out)
    assert settings["training"]["learning_rate"] == 0.5
    assert settings["model"]["characters"]["kernel_widths"] == [1, 2, 3, 4, 5, 6]


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(UserError, match=r"dataset 'squad-v1'\. Did you mean 'squad-v1\.1'\?"):
        datasets(("squad-v1",))
    message = r"^Unknown variant 'bseline'; expected one of: baseline, .* Did you mean 'baseline'\?"
    with pytest.raises(UserError, match=message):
        variants(("bseline",))
