"""Windows over long contexts, compared with plain loops, and models that read them."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import models.predict
from models.batching import Examples, Ragged, make_batch
from models.bidaf import BiDAF
from models.configs.variant import TrainingConfig, Window
from models.predict import predict
from models.sliding_windows import Windows, count_trainable, cut, select_for_epoch
from tests.factories.models import make_examples, make_model, make_types, small

TYPES = make_types()


@st.composite
def cuts(draw: st.DrawFn) -> tuple[Examples, Window]:
    """Examples, some of which may share a context, and the window to cut them with."""
    tokens = draw(st.integers(2, 9))
    window = Window(tokens, draw(st.integers(1, tokens - 1)))
    lengths = draw(st.lists(st.integers(1, 30), min_size=1, max_size=6))
    examples = make_examples(lengths, draw(st.lists(st.integers(0, 4), min_size=6, max_size=6)))
    context_of = draw(st.lists(st.integers(0, len(lengths) - 1), min_size=6, max_size=6))
    span = [draw(st.integers(0, lengths[row] - 1)) for row in context_of]
    end = [
        min(start + draw(st.integers(0, 3)), lengths[row] - 1)
        for start, row in zip(span, context_of, strict=True)
    ]
    kinds = st.sampled_from(["answered", "none", "unknown"])
    kind = np.array(draw(st.lists(kinds, min_size=6, max_size=6)))
    examples = Examples(
        contexts=examples.contexts,
        questions=Ragged.from_rows([[2] * (i % 3) for i in range(6)]),
        context_of=np.array(context_of),
        span_start=np.where(kind == "answered", span, -1),
        span_end=np.where(kind == "answered", end, -1),
        impossible=kind == "none",
    )
    return examples, window


@given(cuts())
def test_windows_match_a_reference_loop(case: tuple[Examples, Window]) -> None:
    examples, window = case
    windows, row = cut(examples, window), 0
    for i in range(len(examples)):
        context, parts = examples.contexts[examples.context_of[i]], []
        first = 0
        while True:
            first = max(0, min(first, len(context) - window.tokens))
            parts.append(range(first, min(first + window.tokens, len(context))))
            if parts[-1].stop == len(context):
                break
            first += window.stride
        assert windows.windows_of(np.array([i])).tolist() == list(range(row, row + len(parts)))
        start, end = int(examples.span_start[i]), int(examples.span_end[i])
        holding = [part for part in parts if start >= 0 and start in part and end in part]
        cut_examples = windows.examples
        for part in parts:
            assert (
                cut_examples.contexts[cut_examples.context_of[row]].tolist()
                == context[part].tolist()
            )
            assert cut_examples.questions[row].tolist() == examples.questions[i].tolist()
            assert (windows.example_of[row], windows.first[row]) == (i, part.start)
            if part in holding:
                assert cut_examples.span_start[row] == start - part.start
                assert cut_examples.span_end[row] == end - part.start
            else:
                assert cut_examples.span_start[row] == cut_examples.span_end[row] == -1
            assert cut_examples.impossible[row] == (
                examples.impossible[i] or (bool(holding) and part not in holding)
            )
            row += 1
        own = windows.core_end[row - len(parts) : row]
        starts = windows.core_start[row - len(parts) : row]
        assert [0, *own] == [*starts, len(context)], "each token is of one window"
        for token in range(len(context)):
            (owner,) = (p for p, a, b in zip(parts, starts, own, strict=True) if a <= token < b)
            room = [min(token - part.start, part.stop - 1 - token) for part in parts]
            assert min(token - owner.start, owner.stop - 1 - token) == max(room)
    assert row == len(windows.example_of)


@given(cuts(), st.integers(0, 5))
def test_epoch_uses_answer_windows_and_one_negative(
    case: tuple[Examples, Window], epoch: int
) -> None:
    examples, window = case
    config = TrainingConfig(
        max_context_tokens=window.tokens, window_stride=window.stride, max_answer_tokens=1, seed=3
    )
    windows = cut(examples, window)
    try:
        actual, rows = select_for_epoch(examples, config, epoch)
    except ValueError:
        assert not (windows.examples.impossible | (windows.examples.span_start >= 0)).any()
        return
    assert count_trainable(examples, config) == len(set(windows.example_of[rows].tolist()))
    assert len(set(rows.tolist())) == len(rows)
    for i in range(len(examples)):
        own = windows.windows_of(np.array([i]))
        chosen = [row for row in own if row in rows]
        holding = [row for row in own if actual.span_start[row] >= 0]
        others = [row for row in own if actual.impossible[row]]
        assert set(holding) <= set(chosen)
        assert len(chosen) == len(holding) + min(1, len(others))
    assert select_for_epoch(examples, config, epoch)[1].tolist() == rows.tolist()


def test_short_answers_fit_a_window_and_negatives_vary() -> None:
    config = TrainingConfig(max_context_tokens=9, window_stride=4, max_answer_tokens=5)
    examples = make_examples([80])
    drawn = set()
    for start in range(76):
        span = np.array([start])
        at = replace(examples, span_start=span, span_end=span + 4)
        actual, rows = select_for_epoch(at, config, epoch=start)
        assert (actual.span_start[rows] >= 0).any()
        drawn |= set(rows[actual.span_start[rows] < 0].tolist())
    assert len(drawn) > 10


@given(
    st.lists(st.booleans(), min_size=2, max_size=30).filter(lambda kinds: len(set(kinds)) == 2),
    st.floats(0.01, 0.99),
    st.integers(0, 5),
)
def test_no_answer_share_sets_the_share_of_an_epoch(
    impossible: list[bool], share: float, epoch: int
) -> None:
    n = len(impossible)
    span = np.where(impossible, -1, 0)
    examples = replace(
        make_examples([5] * n), span_start=span, span_end=span, impossible=np.array(impossible)
    )
    config = TrainingConfig(no_answer_share=share, seed=3)
    _, rows = select_for_epoch(examples, config, epoch)
    assert len(rows) == n
    assert examples.impossible[rows].sum() == round(share * n)
    for kind in (True, False):
        times = [(rows == row).sum() for row in range(n) if impossible[row] == kind]
        assert max(times) - min(times) <= 1
    assert select_for_epoch(examples, config, epoch)[1].tolist() == rows.tolist()


def test_no_answer_share_draws_anew_in_each_epoch() -> None:
    examples = make_examples([5] * 200)
    config = TrainingConfig(no_answer_share=0.5)
    first, second = (set(select_for_epoch(examples, config, epoch)[1]) for epoch in (0, 1))
    assert first != second
    assert len(first | second) > len(first)


def test_no_answer_share_needs_both_kinds() -> None:
    examples = make_examples([5] * 8)
    config = TrainingConfig(no_answer_share=0.5)
    for impossible, text in ((True, "all"), (False, "none")):
        span = np.full(8, -1 if impossible else 0)
        one_kind = replace(
            examples, span_start=span, span_end=span, impossible=np.full(8, impossible)
        )
        with pytest.raises(ValueError, match=f"no_answer_share is 0.5, but {text} of the trainabl"):
            select_for_epoch(one_kind, config)


def test_no_answer_share_holds_for_windows() -> None:
    examples = make_examples([30] * 40)
    config = TrainingConfig(
        max_context_tokens=10, window_stride=5, max_answer_tokens=3, no_answer_share=0.25
    )
    plain = select_for_epoch(examples, replace(config, no_answer_share=None))[1]
    windows, rows = select_for_epoch(examples, config)
    assert len(rows) == len(plain)
    assert windows.impossible[rows].sum() == round(len(rows) / 4)


def test_uncovered_answers_are_not_unanswerable() -> None:
    examples = replace(make_examples([30]), span_start=np.array([3]), span_end=np.array([20]))
    config = TrainingConfig(max_context_tokens=10, window_stride=3, max_answer_tokens=5)
    with pytest.raises(ValueError, match="No trainable questions"):
        select_for_epoch(examples, config)


# Prediction


def test_windows_do_not_change_short_context_answers() -> None:
    examples = make_examples([9, 2, 14, 1, 20, 6, 9], [4, 1, 0, 7, 3, 3, 2])
    model = make_model(small("char", hidden_size=12), seed=4, scale=3.0)
    plain, nlls = predict(model, examples, TYPES, 4)
    same, same_nlls = predict(model, examples, TYPES, 4, Window(20, 7))
    assert all(
        np.array_equal(a, b) for a, b in zip(vars(plain).values(), vars(same).values(), strict=True)
    )
    assert np.array_equal(same_nlls, nlls)
    # The same holds next to an example that does not fit in one window.
    longer = make_examples([9, 2, 14, 1, 20, 6, 9, 50], [4, 1, 0, 7, 3, 3, 2, 5])
    beside, _ = predict(model, longer, TYPES, 4, Window(20, 7))
    alone, _ = predict(model, longer, TYPES, 4)
    assert beside.span_score[:7] == pytest.approx(alone.span_score[:7], abs=1e-5)
    assert beside.no_answer_score[:7] == pytest.approx(alone.no_answer_score[:7], abs=1e-5)


def joined(model: BiDAF, examples: Examples, row: int, windows: Windows) -> torch.Tensor:
    """Reference logits of one example, (2, T + 1), from windows read one at a time."""
    size = int(examples.context_lengths[row])
    logits = torch.full((2, size + 1), torch.nan, dtype=torch.float64)
    nulls = []
    for window in windows.windows_of(np.array([row])):
        batch = make_batch(windows.examples, TYPES, np.array([window]), model.max_characters)
        start, end = model(batch)
        nulls.append(torch.stack([start[0, 0], end[0, 0]]))
        for token in range(windows.core_start[window], windows.core_end[window]):
            place = 1 + token - windows.first[window]
            logits[:, 1 + token] = torch.stack([start[0, place], end[0, place]])
    logits[:, 0] = min(nulls, key=lambda null: float(null.sum()))
    assert not logits.isnan().any()
    return logits


@pytest.mark.parametrize("name", ["baseline", "seo2016", "docqa"])
@torch.no_grad()
def test_unnormalized_logits_compare_across_windows(name: str) -> None:
    examples, window = make_examples([50, 7, 31, 90, 20]), Window(12, 5)
    model = make_model(small(name, hidden_size=12), seed=4, scale=3.0).double().eval()
    actual, nlls = predict(model, examples, TYPES, 3, window)
    windows, expected = cut(examples, window), []
    for i in range(len(examples)):
        logits = joined(model, examples, i, windows)
        normal = torch.log_softmax(logits, 1)
        spans = [
            (float(normal[0, 1 + start] + normal[1, 1 + end]), start, end)
            for start in range(logits.shape[1] - 1)
            for end in range(start, min(start + 3, logits.shape[1] - 1))
        ]
        no_answer = float(normal[:, 0].sum())
        total = math.log(sum(math.exp(score) for score in (no_answer, *(s for s, *_ in spans))))
        score, start, end = max(spans)
        assert (actual.span_score[i], actual.span_start[i], actual.span_end[i]) == pytest.approx(
            (score - total, start, end), abs=1e-9
        )
        assert actual.no_answer_score[i] == pytest.approx(no_answer - total, abs=1e-9)
        start, end = examples.span_start[i] + 1, examples.span_end[i] + 1
        expected.append(-float(normal[0, start] + normal[1, end]))
    assert nlls == pytest.approx(np.array(expected), abs=1e-9)


@pytest.mark.parametrize("window", [None, Window(12, 4)])
def test_long_question_is_read_alone(
    window: Window | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models.predict, "EVALUATION_TOKENS", 60)
    model, read = make_model(small("baseline")), []
    model.register_forward_pre_hook(lambda _, batch: read.append(tuple(batch[0].question.shape)))
    predict(model, make_examples([9, 9, 9, 9], [3, 3, 50, 3]), TYPES, 3, window)
    assert sorted(read) == [(1, 56), (3, 8)]


@pytest.mark.parametrize(
    ("name", "window", "rows"),
    [
        ("baseline", None, [4]),
        ("char-selfattn", None, [1, 1, 2]),
        ("docqa", None, [1, 1, 2]),
        ("docqa", Window(15, 7), [1, 3, 3, 3, 3, 3, 3]),
    ],
)
def test_batches_respect_pair_budget(
    name: str, window: Window | None, rows: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models.predict, "EVALUATION_PAIRS", 1000)
    model, read = make_model(small(name)), []
    model.register_forward_pre_hook(lambda _, batch: read.append(len(batch[0].context)))
    predict(model, make_examples([70, 50, 20, 20], [2] * 4), TYPES, 3, window)
    assert sorted(read) == rows


def test_windows_have_the_layers_of_their_tokens() -> None:
    examples = make_examples([23, 4, 9], [2, 3, 1])
    windows = cut(examples, Window(8, 3))
    assert windows.examples.context_layers is not None
    assert examples.context_layers is not None and examples.question_layers is not None
    rows = np.arange(len(windows.examples))
    batch = make_batch(windows.examples, TYPES, rows, 8)
    assert batch.context_layers is not None and batch.question_layers is not None
    for row in rows:
        example = int(windows.example_of[row])
        first, length = int(windows.first[row]), int(windows.examples.context_lengths[row])
        size = np.array([len(examples.contexts[example])])
        whole = examples.context_layers.padded(np.array([example]), size, 24)
        expected = whole[0, 1 + first : 1 + first + length]
        assert torch.equal(batch.context_layers[row, 1 : 1 + length], expected)
        size = np.array([len(examples.questions[example])])
        question = examples.question_layers.padded(np.array([example]), size, 8)
        assert torch.equal(batch.question_layers[row], question[0])
