"""Heatmaps of known attention weights."""

import re

import numpy as np
import pytest
import torch

from models.attention_maps import AttentionWeights
from tasks.inference.predictor import Attended
from tasks.reports.attention_heatmaps import LEVELS, MOST_TOKENS, NULL, Heatmap, heatmaps
from tasks.text.tokenizer import tokenize

LONG = " ".join(f"w{i}" for i in range(400))


def drawn(
    question: str, context: str, weights: list[torch.Tensor], gold: str, predicted: tuple[int, int]
) -> list[Heatmap]:
    to_question, to_context, *among = [matrix.unsqueeze(0) for matrix in weights]
    attended = Attended(
        tokenize(question),
        tokenize(context),
        AttentionWeights(to_question, to_context, among[0] if among else None),
    )
    start = context.index(gold)
    return heatmaps(question, context, attended, [(start, start + len(gold))], predicted)


def shades(drawing: Heatmap) -> np.ndarray:
    """The shade of each cell, 0 for a blank one."""
    found = np.zeros((len(drawing.rows), len(drawing.columns)), dtype=int)
    for shade, path in enumerate(drawing.paths, start=1):
        for x, y, length in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\3z", path):
            found[int(y), int(x) : int(x) + int(length)] += shade
    return found


def test_cell_shades_match_the_weights() -> None:
    to_question = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.03, 0.25, 0.72]])
    to_context = torch.tensor([[0.0, 0.4, 0.6]])
    over, under = drawn("Who ?", "Ada wrote", [to_question, to_context], "Ada", (4, 9))
    assert shades(over).tolist() == [[8, 4, 0], [0, 4, 2], [0, 0, 6]]  # question × context
    assert [token.text for token in over.rows] == [NULL, "Who", "?"]
    assert [(t.text, t.gold, t.predicted) for t in over.columns[1:]] == [
        ("Ada", True, False),
        ("wrote", False, True),
    ]
    assert over.peak == 1.0
    assert over.strongest[0] == (NULL, NULL, 1.0)
    assert shades(under).tolist() == [[0, 5, 8]]
    assert [token.text for token in under.rows] == ["question"]
    assert np.isclose(under.peak, 0.6)


def test_long_context_is_cropped_around_its_answer() -> None:
    size = 401
    among = torch.zeros(size, size)
    among[301, 300] = 1.0
    weights = [torch.full((size, 2), 0.5), torch.full((1, size), 1 / size), among]
    for gold, last in (("w300", "w379"), ("w399", "w399"), ("w0", "w159")):
        maps = drawn("Who", LONG, weights, gold, (-1, -1))
        columns = [token.text for token in maps[2].columns]
        assert len(columns) == MOST_TOKENS + 1
        assert columns[0] == NULL and columns[-1] == last
        assert [token.text for token in maps[2].columns if token.gold] == [gold]
        assert shades(maps[0]).min() == LEVELS
    found = drawn("Who", LONG, weights, "w300", (-1, -1))[2]
    (row, column) = np.argwhere(shades(found))[0]
    assert (found.rows[row].text, found.columns[column].text) == ("w300", "w299")
    assert shades(found).sum() == LEVELS


@pytest.mark.parametrize(("gold", "predicted"), [("w349", "w19"), ("w19", "w349"), ("w0", "w399")])
def test_distant_marks_are_both_drawn(gold: str, predicted: str) -> None:
    size = 401
    weights = [torch.full((size, 2), 0.5), torch.full((1, size), 1 / size)]
    start = LONG.index(predicted)
    (drawing, _) = drawn("Who", LONG, weights, gold, (start, start + len(predicted)))
    assert [token.text for token in drawing.columns if token.gold] == [gold]
    assert [token.text for token in drawing.columns if token.predicted] == [predicted]
    assert len(drawing.columns) == MOST_TOKENS + 1
    gaps = [i for i, token in enumerate(drawing.columns) if token.behind_a_gap]
    assert gaps == [MOST_TOKENS // 2 + 1], "the first half begins with the context"
    assert shades(drawing).min() == LEVELS


def test_nearby_marks_share_one_excerpt() -> None:
    weights = [torch.full((401, 2), 0.5), torch.full((1, 401), 1 / 401)]
    start = LONG.index("w279")
    (drawing, _) = drawn("Who", LONG, weights, "w201", (start, start + 4))
    assert [t.text for t in drawing.columns if t.gold or t.predicted] == ["w201", "w279"]
    assert [i for i, t in enumerate(drawing.columns) if t.behind_a_gap] == [1]


def test_zero_weights_leave_cells_blank() -> None:
    """In a context of one token, trilinear self-attention has no other token to attend to."""
    nothing = torch.zeros(2, 2)
    maps = drawn("Who", "Ada", [nothing + 0.5, nothing[:1] + 0.5, nothing], "Ada", (-1, -1))
    assert shades(maps[2]).sum() == 0
