"""Tables in narrow terminals, and in files and pipes."""

import pytest
from rich.cells import cell_len
from rich.table import Column

from flows.commands.terminal import show, table

ROWS = [("char-selfattn-dot", "77.12", "1,139"), ("docqa", "78.22", "98")]


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    columns = [Column("variant"), *(Column(t, justify="right") for t in ("F1", "examples/s"))]
    show(table(columns, ROWS, title="Scores"))
    return capsys.readouterr().out.split("\n")


@pytest.mark.parametrize("width", [36, 41, 42, 80])
def test_no_width_drops_a_digit(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table that is too wide has a line for each cell."""
    monkeypatch.setenv("COLUMNS", str(width))
    lines = shown(capsys)
    assert max(map(cell_len, lines)) <= width
    of_scores = [line for line in lines if any(row[1] in line for row in ROWS)]
    assert [row[0] in line for row, line in zip(ROWS, of_scores, strict=True)] == [width >= 42] * 2
    for cell in sum(ROWS, ()):
        assert sum(cell in line for line in lines) == 1, lines


def test_output_to_a_pipe_is_not_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    show(table(("path", "answers"), [("stages/" * 30, "of a run " * 30)]))
    (row,) = (line for line in capsys.readouterr().out.split("\n") if "stages" in line)
    assert "stages/" * 30 in row and "of a run " * 29 in row


def test_words_of_two_long_texts_are_not_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    path = "/data/" + "x" * 24
    show(table(("found", "what to do"), [(f"a root {path}", "Rename it, " * 9)]))
    cells = [line.split("│")[1] for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert path in "".join(cell.strip() for cell in cells)
