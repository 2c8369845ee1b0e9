"""Heatmaps of known attention weights."""

import re

import numpy as np
import pytest
import torch

from models.attention_maps import AttentionWeights
from tasks.inference.predictor import TokenAttention
from tasks.reports.attention_heatmaps import LEVELS, MAX_TOKENS, NULL, Heatmap, heatmaps
from tasks.text.tokenizer import tokenize

LONG = " ".join(f"w{i}" for i in range(400))


def heatmaps_of(
    question: str, context: str, weights: list[torch.Tensor], gold: str, predicted: tuple[int, int]
) -> list[Heatmap]:
    to_question, to_context, *self_attention = [matrix.unsqueeze(0) for matrix in weights]
    attention = TokenAttention(
        tokenize(question),
        tokenize(context),
        AttentionWeights(to_question, to_context, self_attention[0] if self_attention else None),
    )
    start = context.index(gold)
    return heatmaps(question, context, attention, [(start, start + len(gold))], predicted)


def shades(drawing: Heatmap) -> np.ndarray:
    """The shade of each cell, 0 for a blank one."""
    cells = np.zeros((len(drawing.rows), len(drawing.columns)), dtype=int)
    for shade, path in enumerate(drawing.paths, start=1):
        for x, y, length in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\3z", path):
            cells[int(y), int(x) : int(x) + int(length)] += shade
    return cells


def test_cell_shades_match_the_weights() -> None:
    to_question = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.03, 0.25, 0.72]])
    to_context = torch.tensor([[0.0, 0.4, 0.6]])
    to_question_map, to_context_map = heatmaps_of(
        "Who ?", "Ada wrote", [to_question, to_context], "Ada", (4, 9)
    )
    # question × context
    assert shades(to_question_map).tolist() == [[8, 4, 0], [0, 4, 2], [0, 0, 6]]
    assert [token.text for token in to_question_map.rows] == [NULL, "Who", "?"]
    assert [(t.text, t.gold, t.predicted) for t in to_question_map.columns[1:]] == [
        ("Ada", True, False),
        ("wrote", False, True),
    ]
    assert to_question_map.peak == 1.0
    assert to_question_map.strongest[0] == (NULL, NULL, 1.0)
    assert shades(to_context_map).tolist() == [[0, 5, 8]]
    assert [token.text for token in to_context_map.rows] == ["question"]
    assert np.isclose(to_context_map.peak, 0.6)


def test_long_context_is_cropped_around_its_answer() -> None:
    size = 401
    self_attention = torch.zeros(size, size)
    self_attention[301, 300] = 1.0
    weights = [torch.full((size, 2), 0.5), torch.full((1, size), 1 / size), self_attention]
    for gold, last in (("w300", "w379"), ("w399", "w399"), ("w0", "w159")):
        maps = heatmaps_of("Who", LONG, weights, gold, (-1, -1))
        columns = [token.text for token in maps[2].columns]
        assert len(columns) == MAX_TOKENS + 1
        assert columns[0] == NULL and columns[-1] == last
        assert [token.text for token in maps[2].columns if token.gold] == [gold]
        assert shades(maps[0]).min() == LEVELS
    drawing = heatmaps_of("Who", LONG, weights, "w300", (-1, -1))[2]
    (row, column) = np.argwhere(shades(drawing))[0]
    assert (drawing.rows[row].text, drawing.columns[column].text) == ("w300", "w299")
    assert shades(drawing).sum() == LEVELS


@pytest.mark.parametrize(("gold", "predicted"), [("w349", "w19"), ("w19", "w349"), ("w0", "w399")])
def test_distant_marks_are_both_drawn(gold: str, predicted: str) -> None:
    size = 401
    weights = [torch.full((size, 2), 0.5), torch.full((1, size), 1 / size)]
    start = LONG.index(predicted)
    (drawing, _) = heatmaps_of("Who", LONG, weights, gold, (start, start + len(predicted)))
    assert [token.text for token in drawing.columns if token.gold] == [gold]
    assert [token.text for token in drawing.columns if token.predicted] == [predicted]
    assert len(drawing.columns) == MAX_TOKENS + 1
    gaps = [i for i, token in enumerate(drawing.columns) if token.follows_gap]
    assert gaps == [MAX_TOKENS // 2 + 1], "the first half begins with the context"
    assert shades(drawing).min() == LEVELS


def test_nearby_marks_share_one_excerpt() -> None:
    weights = [torch.full((401, 2), 0.5), torch.full((1, 401), 1 / 401)]
    start = LONG.index("w279")
    (drawing, _) = heatmaps_of("Who", LONG, weights, "w201", (start, start + 4))
    assert [t.text for t in drawing.columns if t.gold or t.predicted] == ["w201", "w279"]
    assert [i for i, t in enumerate(drawing.columns) if t.follows_gap] == [1]


def test_zero_weights_leave_cells_blank() -> None:
    """In a context of one token, trilinear self-attention has no other token to attend to."""
    zeros = torch.zeros(2, 2)
    maps = heatmaps_of("Who", "Ada", [zeros + 0.5, zeros[:1] + 0.5, zeros], "Ada", (-1, -1))
    assert shades(maps[2]).sum() == 0
