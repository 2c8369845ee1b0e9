"""The contexts that models were trained on, and the questions that are new to them."""

import json
from pathlib import Path
from typing import Any

import pytest

from models.configs.presets import preset
from tasks.evaluation.evaluate import load_split
from tasks.inference.trained_contexts import (
    chose_epoch,
    new_to_models,
    trained_contexts,
    write_trained_contexts,
)
from tasks.tracking.registry import MODEL_FILES, MODEL_TABLES, fetch_model, find_model_files
from tests.factories.splits import ingest


def test_questions_about_trained_contexts_are_not_new(tmp_path: Path) -> None:
    """Also those of the model that a warm start began with."""
    mill, inn, river = "The mill stands on the hill.", "The inn is old.", "The river is wide."
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    write_trained_contexts(first, ingest(tmp_path / "a", (mill, ["Where?"])), None)
    write_trained_contexts(second, ingest(tmp_path / "b", ("THE INN  is old.", ["How?"])), first)
    assert len(trained_contexts(first)) == 1 and len(trained_contexts(second)) == 2
    asked = [(mill, ["What?", "Where?"]), (inn, ["What?"]), (river, ["What?"])]
    split = load_split(ingest(tmp_path / "c", *asked))
    for models, new in (
        ([], [True] * 4),
        ([first], [False, False, True, True]),
        ([second], [False, False, False, True]),
    ):
        assert new_to_models(split, map(trained_contexts, models)).tolist() == new


def test_contexts_of_a_copied_model_folder_are_known(tmp_path: Path) -> None:
    """A warm start from a folder begins with such a copy."""
    model = tmp_path / "model"
    model.mkdir()
    for name in (*MODEL_FILES, *MODEL_TABLES):
        (model / name).touch()
    write_trained_contexts(model, ingest(tmp_path / "a", ("The inn is old.", ["How?"])), None)
    (tmp_path / "copy").mkdir()
    fetch_model(tmp_path / "copy", find_model_files(str(model)))
    assert trained_contexts(tmp_path / "copy" / "model") == trained_contexts(model) != set()


@pytest.mark.parametrize(
    ("settings", "chosen"), [({}, False), ({"patience": 2}, True), ({"stop_at_f1": 50.0}, True)]
)
def test_model_knows_who_chose_its_epoch(
    tmp_path: Path, settings: dict[str, Any], chosen: bool
) -> None:
    variant = preset("baseline").with_changes(**settings)
    config = json.dumps({"variant": variant.to_dict()})
    (tmp_path / "config.json").write_text(config, encoding="utf-8")
    assert chose_epoch(tmp_path) == chosen
