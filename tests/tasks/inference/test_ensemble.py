"""Models that answer together, by the mean of their span probabilities."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from infra.errors import UserError
from models.predict import TEMPERATURES
from tasks.evaluation.evaluate import load_split
from tasks.inference.ensemble import Ensemble, join, load_model, save_ensemble
from tasks.inference.members import member_folders
from tasks.inference.predictor import Predictor
from tasks.inference.score_ensemble import score_split
from tasks.inference.trained_contexts import chose_epoch
from tests.factories.answers import COMMON, LONG, STRANGE, is_token_span, same_answers
from tests.factories.language_models import selected_bilm
from tests.factories.logged_models import CONTEXT, save_untrained_model
from tests.factories.splits import ingest, write_split

LIMIT = 17  # tokens of an answer of the first two members
SHORTER = 5  # and of the third


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Models with other weights, temperatures and limits; the last has contextual vectors."""
    root = tmp_path_factory.mktemp("members")
    (root / "plain").mkdir()
    bilm = selected_bilm(root / "bilm")
    first, third = save_untrained_model(root / "plain"), root / "elmo"
    third.mkdir()
    members = [first, root / "second", save_untrained_model(third, bilm)]
    shutil.copytree(first, members[1])
    for seed, folder in enumerate(members):
        generator = torch.Generator().manual_seed(seed)
        weights = load_file(folder / "weights.safetensors")
        drawn = {n: torch.randn(w.shape, generator=generator) for n, w in weights.items()}
        save_file(drawn, folder / "weights.safetensors")
        config = json.loads((folder / "config.json").read_text())
        config |= {"allow_no_answer": True, "temperature": 1 + seed}
        (folder / "config.json").write_text(json.dumps(config))
    config["variant"]["training"]["max_answer_tokens"] = SHORTER
    (members[2] / "config.json").write_text(json.dumps(config))
    return members


@pytest.fixture(scope="module")
def ensemble(folders: list[Path]) -> Ensemble:
    return join([Predictor.load(folder) for folder in folders])


def test_ensemble_of_equal_models_answers_like_one(folders: list[Path]) -> None:
    one = replace(Predictor.load(folders[0]), temperature=1.0)
    for pair in [*COMMON, *STRANGE.values()]:
        for left, right in zip(
            one.top_answers(*pair, 3), join([one, one]).top_answers(*pair, 3), strict=True
        ):
            assert same_answers(left, right)


def test_probabilities_are_means_of_the_members(ensemble: Ensemble) -> None:
    rows = ensemble.top_answers(*COMMON[0], 10_000)
    scored = [member.span_scores(COMMON[:1], LIMIT)[0] for member in ensemble.members]
    spans = torch.stack([own.exp() for own, _ in scored]).mean(0)
    no_answer = sum(math.exp(own) for _, own in scored) / len(scored)
    assert sum(row["probability"] for row in rows) == pytest.approx(1)
    assert rows[0]["no_answer_probability"] == pytest.approx(no_answer)
    found = sorted(row["probability"] for row in rows if row["start"] >= 0)
    assert found == pytest.approx(sorted(spans[spans > 0].tolist()))


@pytest.mark.parametrize("pair", [*COMMON, LONG, *STRANGE.values()])
def test_answers_are_spans_of_the_context(pair: tuple[str, str], ensemble: Ensemble) -> None:
    for row in ensemble.top_answers(*pair, 3):
        assert row["start"] < 0 or is_token_span(row, pair[1], LIMIT)


def test_longest_answer_can_be_shorter(ensemble: Ensemble) -> None:
    changed = replace(ensemble, variant=ensemble.variant.with_changes(max_answer_tokens=1))
    question, context = COMMON[0]
    for row in changed.top_answers(question, context, 20):
        assert row["start"] < 0 or is_token_span(row, context, 1)


def test_answers_do_not_depend_on_other_questions(ensemble: Ensemble) -> None:
    pairs = [*COMMON, ("", CONTEXT), LONG, *STRANGE.values()] * 8
    together = ensemble.answer(pairs)
    assert together[2]["error"] == "The question is empty. Provide some text."
    for pair, row in zip(pairs[: len(pairs) // 8], together, strict=False):
        assert same_answers(row, ensemble.answer([pair])[0])


def test_text_that_one_member_can_not_read_is_refused(folders: list[Path], tmp_path: Path) -> None:
    attentive = Predictor.load(save_untrained_model(tmp_path, self_attention="dot"))
    members = [Predictor.load(folders[0]), attentive]
    tokens = 7_000
    assert not members[0].read_error(5, tokens)
    assert join(members).read_error(5, tokens) == members[1].read_error(5, tokens) != ""


def test_saved_ensemble_answers_as_before(
    ensemble: Ensemble, folders: list[Path], tmp_path: Path
) -> None:
    rule = {"allow_no_answer": True, "temperature": 2.0, "threshold": -9.0, "operating_points": []}
    save_ensemble(tmp_path, folders, rule)
    assert len(member_folders(tmp_path)) == 3 and member_folders(folders[0]) == []
    assert not chose_epoch(tmp_path)
    loaded = load_model(tmp_path)
    warm = replace(ensemble, temperature=2.0)
    assert all(map(same_answers, loaded.answer(COMMON), warm.answer(COMMON)))
    assert load_model(tmp_path, "threshold").answer(COMMON[:1])[0]["start"] == -1
    with pytest.raises(UserError, match="between 0 and 1"):
        load_model(tmp_path, "threshold", 2.0)


def test_predictions_for_a_split_are_the_answers(ensemble: Ensemble, tmp_path: Path) -> None:
    split = load_split(write_split(tmp_path))
    pairs = [(question, split.context(row)) for row, question in enumerate(split.questions)]
    scored = score_split(ensemble, split, TEMPERATURES)
    for temperature in (0.5, 1.0, 2.0):
        answers = replace(ensemble, temperature=temperature).answer(pairs)
        expected = [row["probability"] for row in answers]
        own = scored.at(temperature).answers(ensemble.threshold)
        assert np.exp(own.score) == pytest.approx(expected)


def test_question_without_tokens_gets_no_answer(ensemble: Ensemble, tmp_path: Path) -> None:
    split = load_split(ingest(tmp_path / "split", (CONTEXT, ["Where?", " "])))
    predictions = score_split(ensemble, split, [2.0]).at(2.0)
    assert predictions.span_start[0] >= 0 > predictions.span_start[1]
    assert np.isfinite(predictions.margin).all()
