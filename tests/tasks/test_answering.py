"""Answers of a small untrained model to raw text, common and strange."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tasks.answering import Answerer, AnswerRow
from tasks.errors import UserError
from tasks.evaluation import load_split
from tasks.scoring import ask
from tasks.tokenizer import tokenize
from tests.tasks.ingested import ingest
from tests.tasks.test_pyfunc import CONTEXT, made_model

STRANGE = {
    "unseen words": ("Quo vadis?", "Zyx wvu tsr, qpo nml."),
    "unseen characters": ("Ŵhëŕê?", "Ťĥę мельница ștānđş."),
    "emoji": ("Where is 🏠?", "The 👨‍👩‍👧 lives in the 🏠 by the 🌊."),
    "Chinese": ("磨坊在哪里？", "磨坊在山上。客栈在河边。"),
    "right to left": ("איפה הטחנה?", "הטחנה עומדת על הגבעה. المطحنة على التل."),
    "combining marks": ("où?", "L'auberge est pre\u0300s de la rivie\u0300re."),
    "beyond the basic plane": ("𝔚𝔥𝔢𝔯𝔢?", "𝔗𝔥𝔢 mill 𝔰𝔱𝔞𝔫𝔡𝔰 on the hill."),
    "one token": ("Where?", "hill"),
    "one character": ("?", "."),
    "a word of 300 characters": ("Where?", f"See {'https://' + 'a' * 292} for it."),
    "white space": ("\n Where \t is it?", "\u00a0The\r\n\tmill  \u2003stands."),
    "the vocabulary's own names": ("<padding>", "<unknown> <padding> <unknown>"),
    "a null byte": ("Where\0?", "The\0mill."),
}
COMMON = [("Where does the mill stand?", CONTEXT), ("Where is the inn?", CONTEXT)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose weights are large enough for its answers to depend on all that it reads."""
    made = made_model(tmp_path_factory.mktemp("model"))
    weights = load_file(made / "weights.safetensors")
    save_file({n: 4 * w for n, w in weights.items()}, made / "weights.safetensors")
    return made


@pytest.fixture(scope="module")
def answerer(folder: Path) -> Answerer:
    """Answers whatever it is asked."""
    return Answerer.load(folder)


@pytest.fixture(scope="module")
def abstainer(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Answerer:
    """The same model, which may also say that there is no answer."""
    copy = tmp_path_factory.mktemp("copied") / "model"
    shutil.copytree(folder, copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "allow_no_answer": True}))
    return Answerer.load(copy)


# Float32 sums differ in their last digits with the shape of the batch, which weights as large as
# these make more of from layer to layer; in float64 the same answers agree to fifteen digits.
RELATIVE, ABSOLUTE = 5e-4, 1e-5


def alike(one: AnswerRow, other: AnswerRow) -> bool:
    places = [(row["answer"], row["start"], row["end"]) for row in (one, other)]
    return places[0] == places[1] and all(
        math.isclose(one[name], other[name], rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        for name in ("score", "no_answer_probability")
    )


def stands_in(row: AnswerRow, context: str, limit: int) -> bool:
    """Whether the row is a run of at most `limit` whole tokens of the context."""
    inside = [s for s in tokenize(context) if row["start"] <= s[0] and s[1] <= row["end"]]
    return (
        0 < len(inside) <= limit
        and (inside[0][0], inside[-1][1]) == (row["start"], row["end"])
        and row["answer"] == context[row["start"] : row["end"]]
    )


@pytest.mark.parametrize("pair", STRANGE.values(), ids=STRANGE)
def test_strange_text_is_answered_from_the_context(
    pair: tuple[str, str], answerer: Answerer
) -> None:
    (row,) = answerer.answer([pair])
    assert stands_in(row, pair[1], answerer.variant.training.max_answer_tokens)
    assert row["score"] <= 0
    assert 0 <= row["no_answer_probability"] <= 1


LONG = ("Where?", " ".join(f"The mill{i} stands on hill {i * i}." for i in range(80)))


def test_many_at_once_are_answered_like_each_alone(answerer: Answerer, abstainer: Answerer) -> None:
    pairs = [*COMMON, *STRANGE.values(), LONG, *COMMON]
    for model in (answerer, abstainer):
        together = model.answer(pairs)
        assert len({row["score"] for row in together}) > len(STRANGE) / 2
        for pair, row in zip(pairs, together, strict=True):
            assert alike(row, model.answer([pair])[0]), pair
        assert all(map(alike, together, reversed(model.answer(pairs[::-1]))))


def test_long_texts_are_read_in_windows(answerer: Answerer) -> None:
    """As they are answered whole where they fit, and from their far end where they do not."""
    training = replace(answerer.variant.training, max_context_tokens=60, window_stride=20)
    reader = replace(answerer, variant=replace(answerer.variant, training=training))
    assert reader.answer(COMMON) == answerer.answer(COMMON)
    far = ("Where?", " ".join(["Filler."] * 3000) + " The mill stands on the hill.")
    (row,) = reader.answer([far])
    assert stands_in(row, far[1], training.max_answer_tokens)
    (beside, _) = reader.answer([far, COMMON[0]])
    assert alike(row, beside)


@pytest.mark.parametrize("stride", [20, 59, 7])
def test_attention_is_that_of_the_window_that_a_text_stands_in(
    stride: int, answerer: Answerer
) -> None:
    training = replace(answerer.variant.training, max_context_tokens=60, window_stride=stride)
    reader = replace(answerer, variant=replace(answerer.variant, training=training))
    question, context = LONG
    for name in ("mill0", "mill40", "mill79"):
        around = context.index(name)
        attended = reader.attention(question, context, around)
        assert attended.weights.context_to_question.shape[1] == 64, "61, padded"
        assert len(attended.context_offsets) == 60
        assert name in [context[start:end] for start, end in attended.context_offsets]
        window = context[attended.context_offsets[0][0] : attended.context_offsets[-1][1]]
        alone = answerer.attention(question, window).weights
        assert torch.equal(attended.weights.context_to_question, alone.context_to_question)
        assert torch.equal(attended.weights.question_to_context, alone.question_to_context)
    short = reader.attention(*COMMON[0], around=10**6)
    assert short.context_offsets == answerer.attention(*COMMON[0]).context_offsets


words = st.lists(
    st.sampled_from([*CONTEXT.split(), "Zyx", "磨坊", "🏠", "don't", "3.5", "—", "a" * 40]),
    min_size=1,
    max_size=30,
).map(" ".join)


@settings(max_examples=25)
@given(pairs=st.lists(st.tuples(words, words), min_size=1, max_size=5))
def test_any_batch_of_words_is_answered_in_order(
    pairs: list[tuple[str, str]], answerer: Answerer
) -> None:
    for (question, context), row in zip(pairs, answerer.answer(pairs), strict=True):
        assert stands_in(row, context, answerer.variant.training.max_answer_tokens)
        # Not the place: of repeated words several can be equally likely.
        (alone,) = answerer.answer([(question, context)])
        assert math.isclose(row["score"], alone["score"], rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def test_no_answer_is_given_only_where_it_is_likeliest(abstainer: Answerer) -> None:
    pairs = [*COMMON, *STRANGE.values()]
    forced = replace(abstainer, threshold=math.inf).answer(pairs)
    free = abstainer.answer(pairs)
    for any_answer, row in zip(forced, free, strict=True):
        none = math.log(row["no_answer_probability"])
        if none >= any_answer["score"]:
            assert (row["answer"], row["start"], row["end"]) == ("", -1, -1)
            assert math.isclose(row["score"], none, abs_tol=1e-5)
        else:
            assert row == any_answer
    assert {row["answer"] == "" for row in free} == {True, False}


def test_the_threshold_of_validation_is_used_by_choice(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no threshold was chosen for this model"):
        Answerer.load(folder, "threshold")
    copy = tmp_path / "model"
    shutil.copytree(folder, copy)
    config = json.loads((copy / "config.json").read_text())
    chosen = {**config, "allow_no_answer": True, "threshold": -1e6}
    (copy / "config.json").write_text(json.dumps(chosen))
    assert all(row["answer"] == "" for row in Answerer.load(copy, "threshold").answer(COMMON))
    assert any(row["answer"] for row in Answerer.load(copy).answer([*COMMON, *STRANGE.values()]))


def test_nothing_asked_nothing_answered(answerer: Answerer) -> None:
    assert answerer.answer([]) == []


@pytest.mark.parametrize("empty", ["", " \n\t\u00a0"])
def test_empty_text_is_refused_by_number_and_name(empty: str, answerer: Answerer) -> None:
    with pytest.raises(UserError, match=r"^Input 1: the question is empty"):
        answerer.answer([COMMON[0], (empty, CONTEXT)])
    with pytest.raises(UserError, match=r"^Input 2: the context is empty"):
        answerer.answer([*COMMON, ("Where?", empty)])


def test_a_moved_folder_answers_the_same(folder: Path, answerer: Answerer, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert Answerer.load(tmp_path / "elsewhere").answer(COMMON) == answerer.answer(COMMON)


def test_the_case_of_a_word_counts_by_its_characters_alone(answerer: Answerer) -> None:
    indices = {answerer.lexicon.word(form) for form in ("mill", "Mill", "MILL")}
    assert len(indices) == 1
    assert answerer.lexicon.characters("mill") != answerer.lexicon.characters("MILL")


def test_where_there_is_nothing_to_ask_the_answer_is_none(
    answerer: Answerer, tmp_path: Path
) -> None:
    folder = ingest(tmp_path / "split", (CONTEXT, [" ", "Where?"]), (" ", ["Where is the inn?"]))
    answers, scores = ask(answerer, load_split(folder))
    assert [bool(answer) for answer in answers] == [False, True, False]
    assert [score.em for score in scores] == [1, 0, 1]
