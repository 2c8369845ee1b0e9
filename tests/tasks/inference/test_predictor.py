"""Answers of a small untrained model to raw text, ordinary and unusual."""

import json
import math
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import regex
import torch
from safetensors.torch import load_file, save_file

import models.predict
import tasks.inference.predictor as predictor_module
from infra.errors import UserError
from tasks.evaluation.evaluate import load_split
from tasks.inference.predictor import Predictor
from tasks.inference.score_model import answer_split, warn_of_unread
from tests.factories.answers import (
    COMMON,
    LONG,
    STRANGE,
    is_token_span,
    same_answers,
)
from tests.factories.language_models import selected_bilm
from tests.factories.logged_models import CONTEXT, save_untrained_model
from tests.factories.splits import ingest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with weights so large that its answers depend on the whole input."""
    folder = save_untrained_model(tmp_path_factory.mktemp("model"))
    weights = load_file(folder / "weights.safetensors")
    save_file({n: 4 * w for n, w in weights.items()}, folder / "weights.safetensors")
    return folder


@pytest.fixture(scope="module")
def predictor(folder: Path) -> Predictor:
    """A predictor that answers every question."""
    return Predictor.load(folder)


@pytest.fixture(scope="module")
def abstainer(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """A predictor with the same model that may also give no answer."""
    copy = tmp_path_factory.mktemp("copied") / "model"
    shutil.copytree(folder, copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "allow_no_answer": True}))
    return Predictor.load(copy)


@pytest.mark.parametrize("pair", STRANGE.values(), ids=STRANGE)
def test_unusual_text_is_answered_from_the_context(
    pair: tuple[str, str], predictor: Predictor
) -> None:
    (row,) = predictor.answer([pair])
    assert is_token_span(row, pair[1], predictor.variant.training.max_answer_tokens)
    assert 0 < row["probability"] <= 1
    assert 0 <= row["no_answer_probability"] <= 1


def test_batched_answers_equal_single_answers(predictor: Predictor, abstainer: Predictor) -> None:
    pairs = [*COMMON, *STRANGE.values(), LONG, *COMMON]
    for model in (predictor, abstainer):
        together = model.answer(pairs)
        assert len({row["probability"] for row in together}) > len(STRANGE) / 2
        for pair, row in zip(pairs, together, strict=True):
            assert same_answers(row, model.answer([pair])[0]), pair
        assert all(map(same_answers, together, reversed(model.answer(pairs[::-1]))))


@pytest.fixture(scope="module")
def contextual(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    """A predictor that also reads the vectors of a language model."""
    bilm = selected_bilm(tmp_path_factory.mktemp("language-model") / "bilm")
    folder = save_untrained_model(tmp_path_factory.mktemp("model"), bilm)
    weights = load_file(folder / "weights.safetensors")
    save_file({n: 4 * w for n, w in weights.items()}, folder / "weights.safetensors")
    shutil.rmtree(bilm)  # the model folder has all that it needs
    return Predictor.load(folder)


def test_contextual_answers_do_not_depend_on_the_batch(
    contextual: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [*COMMON, *STRANGE.values(), LONG, *COMMON]
    singles = [contextual.answer([pair])[0] for pair in pairs]
    for characters in (1 << 18, 100, 1):  # all pairs in one group, in some groups, one a group
        monkeypatch.setattr(predictor_module, "GROUP_CHARACTERS", characters)
        assert all(map(same_answers, contextual.answer(pairs), singles))
    assert len({row["probability"] for row in singles}) > len(STRANGE) / 2


def test_unpaired_surrogates_fail_no_request(contextual: Predictor) -> None:
    broken = ("Where\ud800 is it?", "The \udfffmill\ud83d stands \udc00 there.")
    replaced = ("Where\ufffd is it?", "The \ufffdmill\ufffd stands \ufffd there.")
    rows = contextual.answer([COMMON[0], broken])
    assert rows == contextual.answer([COMMON[0], replaced])
    assert is_token_span(rows[1], replaced[1], contextual.variant.training.max_answer_tokens)


def test_contextual_vectors_cover_words_and_windows(contextual: Predictor) -> None:
    """Unknown words of the same letters differ by their neighbours; windows keep their vectors."""
    first, second = ("Which?", "Zyx qua zyx."), ("Which?", "Zyx vuu zyx.")
    assert contextual.answer([first])[0] != contextual.answer([second])[0]
    training = replace(contextual.variant.training, max_context_tokens=60, window_stride=20)
    reader = replace(contextual, variant=replace(contextual.variant, training=training))
    assert reader.answer(COMMON) == contextual.answer(COMMON)
    (row,) = reader.answer([LONG])
    assert is_token_span(row, LONG[1], training.max_answer_tokens)
    assert reader.attention(*LONG).weights.context_to_question.shape[1] == 64


def test_long_texts_are_read_in_windows(predictor: Predictor) -> None:
    """Texts that fit get the same answers as without windows; longer ones get answers, too."""
    training = replace(predictor.variant.training, max_context_tokens=60, window_stride=20)
    reader = replace(predictor, variant=replace(predictor.variant, training=training))
    assert reader.answer(COMMON) == predictor.answer(COMMON)
    long = ("Where?", " ".join(["Filler."] * 3000) + " The mill stands on the hill.")
    (row,) = reader.answer([long])
    assert is_token_span(row, long[1], training.max_answer_tokens)
    (batched, _) = reader.answer([long, COMMON[0]])
    assert same_answers(row, batched)


@pytest.mark.parametrize("stride", [20, 59, 7])
def test_attention_comes_from_the_window_of_the_text(stride: int, predictor: Predictor) -> None:
    training = replace(predictor.variant.training, max_context_tokens=60, window_stride=stride)
    reader = replace(predictor, variant=replace(predictor.variant, training=training))
    question, context = LONG
    for name in ("mill0", "mill40", "mill79"):
        around = context.index(name)
        attention = reader.attention(question, context, around)
        assert attention.weights.context_to_question.shape[1] == 64, "61, padded"
        assert len(attention.context_offsets) == 60
        assert name in [context[start:end] for start, end in attention.context_offsets]
        window = context[attention.context_offsets[0][0] : attention.context_offsets[-1][1]]
        alone = predictor.attention(question, window).weights
        assert torch.equal(attention.weights.context_to_question, alone.context_to_question)
        assert torch.equal(attention.weights.question_to_context, alone.question_to_context)
    short = reader.attention(*COMMON[0], around=10**6)
    assert short.context_offsets == predictor.attention(*COMMON[0]).context_offsets


def test_no_answer_is_given_only_if_most_likely(abstainer: Predictor) -> None:
    pairs = [*COMMON, *STRANGE.values()]
    forced = replace(abstainer, threshold=math.inf).answer(pairs)
    free = abstainer.answer(pairs)
    for any_answer, row in zip(forced, free, strict=True):
        none = row["no_answer_probability"]
        if none >= any_answer["probability"]:
            assert (row["answer"], row["start"], row["end"]) == ("", -1, -1)
            assert math.isclose(row["probability"], none, abs_tol=1e-5)
        else:
            assert row == any_answer
    assert {row["answer"] == "" for row in free} == {True, False}


def test_top_answers_start_with_the_answer(predictor: Predictor, abstainer: Predictor) -> None:
    for model in (predictor, abstainer):
        for question, context in [*COMMON, *STRANGE.values(), LONG]:
            rows = model.top_answers(question, context, 10)
            assert same_answers(rows[0], model.answer([(question, context)])[0])
            assert rows[:3] == model.top_answers(question, context, 3)
            probabilities = [row["probability"] for row in rows]
            assert probabilities == sorted(probabilities, reverse=True)
            spans = [(row["start"], row["end"]) for row in rows]
            assert len(set(spans)) == len(spans) <= 10


def test_top_answers_contain_no_answer_at_its_place(
    predictor: Predictor, abstainer: Predictor
) -> None:
    question, context = COMMON[0]
    spans = predictor.top_answers(question, context, 1000)
    assert all(row["answer"] for row in spans)
    assert sum(row["probability"] for row in spans) < 1
    everything = abstainer.top_answers(question, context, 1000)
    (place,) = (number for number, row in enumerate(everything) if row["start"] < 0)
    null = everything[place]
    assert null["answer"] == ""
    assert null["probability"] == null["no_answer_probability"]
    assert everything[:place] + everything[place + 1 :] == spans
    # A threshold moves it up or down.
    margin = math.log(null["probability"]) - math.log(spans[0]["probability"])
    stricter = replace(abstainer, threshold=margin)
    assert stricter.top_answers(question, context, 2) == [null, spans[0]]


def test_temperature_changes_probabilities_only(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, "temperature": 2.0}))
    sharp, soft = Predictor.load(folder), Predictor.load(tmp_path / "model")
    for top in (1, 5):
        pairs = [*COMMON, *STRANGE.values()]
        answers = [
            [[row["answer"] for row in rows] for rows in model.answer_top(pairs, top)]
            for model in (sharp, soft)
        ]
        assert answers[0] == answers[1]
    (before, *_), (after, *_) = sharp.answer_top(COMMON, 1)[0], soft.answer_top(COMMON, 1)[0]
    assert after["probability"] < before["probability"]


def test_predictor_travels_to_other_processes(predictor: Predictor) -> None:
    """The nodes of a cluster get it as bytes."""
    assert pickle.loads(pickle.dumps(predictor)).answer(COMMON) == predictor.answer(COMMON)


def test_batched_top_answers_equal_single_ones(predictor: Predictor, abstainer: Predictor) -> None:
    pairs = [*COMMON, ("", "No question."), *STRANGE.values(), LONG]
    for model in (predictor, abstainer):
        for (question, context), rows in zip(pairs, model.answer_top(pairs, 3), strict=True):
            if question:
                single = model.top_answers(question, context, 3)
                assert len(rows) == len(single)
                assert all(map(same_answers, rows, single))
            else:
                assert [row["error"] for row in rows] == [
                    "The question is empty. Provide some text."
                ]


def test_top_answers_of_long_texts_come_from_windows(predictor: Predictor) -> None:
    training = replace(predictor.variant.training, max_context_tokens=60, window_stride=20)
    reader = replace(predictor, variant=replace(predictor.variant, training=training))
    rows = reader.top_answers(*LONG, 5)
    assert all(is_token_span(row, LONG[1], training.max_answer_tokens) for row in rows)
    assert same_answers(rows[0], reader.answer([LONG])[0])
    assert rows[0]["probability"] != predictor.top_answers(*LONG, 1)[0]["probability"]


def test_threshold_for_another_share(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    config = {**json.loads(file.read_text()), "allow_no_answer": True, "threshold": 2.0}
    file.write_text(json.dumps({**config, "operating_points": [[-3, 40, 90], [0.5, 60, 70]]}))
    assert Predictor.load(file.parent, "threshold").threshold == 2
    assert Predictor.load(file.parent, "threshold", 0.3).threshold == 0.5
    assert Predictor.load(file.parent, "threshold", 0.7).threshold == -3
    for share in (0.0, 1.0, 30.0):
        with pytest.raises(UserError, match="must be between 0 and 1"):
            Predictor.load(file.parent, "threshold", share)
    with pytest.raises(UserError, match="no effect with no_answer='argmax'"):
        Predictor.load(file.parent, "argmax", 0.3)


@pytest.mark.parametrize("empty", ["", " \n\t\u00a0"])
def test_empty_text_is_an_error_of_its_row_only(empty: str, predictor: Predictor) -> None:
    first, no_question, second, no_context = predictor.answer(
        [COMMON[0], (empty, CONTEXT), COMMON[1], ("Where?", empty)]
    )
    assert same_answers(first, predictor.answer(COMMON[:1])[0])
    assert same_answers(second, predictor.answer(COMMON[1:])[0])
    assert first["error"] == second["error"] == ""
    assert no_question["error"] == "The question is empty. Provide some text."
    assert no_context == {**no_question, "error": "The context is empty. Provide some text."}
    assert (no_context["answer"], no_context["probability"]) == ("", 0)


def test_context_too_long_for_attention_is_refused(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models.predict, "EVALUATION_PAIRS", 81)  # eight tokens and the null token
    attending = Predictor.load(save_untrained_model(tmp_path, self_attention="dot"))
    question, fits, longer = (
        "Where?",
        "The mill stands on the hill now.",
        "It is on the hill, so here.",
    )
    rows = attending.answer([(question, longer), (question, fits)])
    assert [bool(row["answer"]) for row in rows] == [False, True]
    assert rows[0]["error"].startswith("The context has 9 tokens, but this model reads at most 8.")
    training = replace(attending.variant.training, max_context_tokens=8, window_stride=4)
    windows = replace(attending, variant=replace(attending.variant, training=training))
    for reader in (windows, predictor):
        assert all(row["answer"] for row in reader.answer([(question, longer)]))
    with pytest.raises(UserError, match="The context has 9 tokens"):
        attending.top_answers(question, longer, 3)


def test_context_too_long_for_memory_is_refused(
    predictor: Predictor, contextual: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models.predict, "LONGEST_CONTEXT", 8)
    monkeypatch.setattr(predictor_module, "LONGEST_CONTEXT", 8)
    pair = ("Where?", "It is on the hill, so here.")

    def with_windows(reader: Predictor) -> Predictor:
        training = replace(reader.variant.training, max_context_tokens=8, window_stride=4)
        return replace(reader, variant=replace(reader.variant, training=training))

    for reader in (predictor, contextual, with_windows(contextual)):
        (row,) = reader.answer([pair])
        assert row["error"].startswith("The context has 9 tokens, but this model reads at most 8.")
    assert "window" not in row["error"]
    assert with_windows(predictor).answer([pair])[0]["answer"]


def test_question_too_long_for_memory_is_refused(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictor_module, "EVALUATION_PAIRS", 81)
    context, longer = "The mill stands on the hill now.", "Where is the mill, the old one?"
    short, long = predictor.answer([("Where?", context), (longer, context)])
    assert short["answer"] and not long["answer"]
    assert long["error"].endswith("they have 9 and 8 tokens. Shorten one of them.")
    training = replace(predictor.variant.training, max_context_tokens=6, window_stride=3)
    reader = replace(predictor, variant=replace(predictor.variant, training=training))
    assert reader.answer([(longer, context)])[0]["answer"], "only a window is in memory at a time"


def test_answers_do_not_cut_joined_emoji(predictor: Predictor) -> None:
    context = "It was 👩🏽‍🚀👩‍👩‍👧 and 🇬🇧🇫🇷 who built the mill."
    borders = {0, *(match.end() for match in regex.finditer(r"\X", context))}
    rows = predictor.top_answers("Who built it?", context, 1000)
    assert len(rows) > 50
    assert {row[side] for row in rows for side in ("start", "end")} <= borders


def test_empty_questions_and_contexts_get_no_answer(predictor: Predictor, tmp_path: Path) -> None:
    folder = ingest(tmp_path / "split", (CONTEXT, [" ", "Where?"]), (" ", ["Where is the inn?"]))
    answers, scores, unread = answer_split(predictor, load_split(folder))
    assert [bool(answer) for answer in answers] == [False, True, False]
    assert [score.em for score in scores] == [1, 0, 1]
    assert unread == 0


def test_questions_that_are_not_read_score_0(
    predictor: Predictor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(models.predict, "LONGEST_CONTEXT", 8)
    longer = ("It is on the hill, so here.", ["Where is it?"])
    folder = ingest(tmp_path / "split", ("It is on a hill.", ["Where?"]), (" ", ["Who?"]), longer)
    answers, scores, unread = answer_split(predictor, load_split(folder))
    assert [bool(answer) for answer in answers] == [True, False, False]
    assert [score.avna for score in scores] == [0, 1, 0], "none of the questions has an answer"
    facts = {"unread": unread, "questions": 3}
    warn_of_unread("Version 1 (char)", facts)
    (warning,) = caplog.messages
    assert warning.startswith("Version 1 (char) can't read 1 of the 3 questions")
    warn_of_unread("Version 1 (char)", {**facts, "unread": 0})
    assert caplog.messages == [warning]
