"""Finished trainings, and what tells one from another."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.trainings.trained import Trained, Training
from tests.factories.finished_trainings import fact_stages, write_manifest
from tests.factories.training_data import small


def test_facts_are_enough_to_tell_trainings_apart(tmp_path: Path) -> None:
    training = Trained(write_manifest(fact_stages(tmp_path), "a", small(seed=3))).training
    assert Training.from_facts({**training.facts, "git": "abc"}) == training
    assert training.settings["questions"] == "1,000" and "seed" not in training.settings


def test_vocabularies_tell_trainings_apart(tmp_path: Path) -> None:
    data = fact_stages(tmp_path)
    other = replace(data, vocabulary=data.vocabulary.with_name("b"))
    own = [
        Trained(write_manifest(each, name, small())).training
        for name, each in (("a", data), ("b", other))
    ]
    assert own[0].key != own[1].key


def test_settings_of_later_releases_have_defaults(tmp_path: Path) -> None:
    """So that trainings of two releases may share a row."""
    training = Trained(write_manifest(fact_stages(tmp_path), "a", small())).training
    older = {**training.config, "training": dict(training.config["training"])}
    del older["training"]["decay_epochs"]
    assert Training(older, training.data, training.inputs).key == training.key


def test_names_a_folder_that_is_no_training(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="other is not a finished training"):
        Trained(tmp_path / "other").training  # noqa: B018 - reads the folder
