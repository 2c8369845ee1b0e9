"""Finished trainings, and what tells one from another."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.trainings.trained import Trained
from tests.factories.finished_trainings import fact_stages, write_manifest
from tests.factories.training_data import small


def test_settings_name_what_it_was_trained_on(tmp_path: Path) -> None:
    training = Trained(write_manifest(fact_stages(tmp_path, negatives=30), "a", small(seed=3)))
    settings = training.settings
    assert (settings["questions"], settings["negatives"]) == ("1,030", "30")
    assert "seed" not in settings and training.seed == 3


def test_vocabularies_tell_trainings_apart(tmp_path: Path) -> None:
    data = fact_stages(tmp_path)
    other = replace(data, vocabulary=data.vocabulary.with_name("b"))
    own = [
        Trained(write_manifest(each, name, small())) for name, each in (("a", data), ("b", other))
    ]
    assert own[0].key != own[1].key


def test_names_a_folder_that_is_no_training(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="other is not a finished training"):
        Trained(tmp_path / "other").key  # noqa: B018 - reads the folder
