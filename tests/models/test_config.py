"""Configurations: what they refuse, and how they travel; what models/ imports."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from infra.settings import CHECKOUT
from models.config import CharacterConfig, ModelConfig, TrainingConfig, VariantConfig
from models.presets import BASELINE, CHAR, PRESETS, preset


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[(f, 0) for f in ("embedding_size", "filters", "kernel_width", "max_characters")],
        ("kernel_width", 17),
    ],
)
def test_impossible_characters(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=rf"^characters\.{field}\b.*\.$"):
        CharacterConfig(**{field: value})


def test_kernel_wider_than_a_word_names_both_fields() -> None:
    with pytest.raises(ValueError) as caught:
        CharacterConfig(kernel_width=7, max_characters=6)
    for part in ("kernel_width (7)", "max_characters (6)"):
        assert part in str(caught.value)
    assert CharacterConfig(kernel_width=6, max_characters=6).kernel_width == 6


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", 0),
        ("dropout", -0.1),
        ("dropout", 1.0),
        ("dropout", math.nan),
        ("query_to_context", "product"),
    ],
)
def test_impossible_models(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{field} must .*\.$"):
        ModelConfig(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epochs", 0),
        ("batch_size", 0),
        ("max_answer_tokens", 0),
        ("max_context_tokens", 0),
        ("max_question_tokens", 0),
        ("learning_rate", 0.0),
        ("learning_rate", math.nan),
        ("epsilon", 0.0),
        ("clip_norm", -1.0),
        ("rho", 1.0),
        ("rho", -0.1),
        ("ema_decay", 1.0),
        ("optimizer", "sgd"),
    ],
)
def test_impossible_trainings(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{field} must .*\.$"):
        TrainingConfig(**{field: value})


def test_bounds_themselves_are_possible() -> None:
    ModelConfig(hidden_size=1, dropout=0.0)
    TrainingConfig(epochs=1, batch_size=1, max_answer_tokens=1, rho=0.0, ema_decay=0.0)


@pytest.mark.parametrize("variant", [*PRESETS.values(), CHAR.with_changes(seed=3, dropout=0.0)])
def test_round_trip_through_json(variant: VariantConfig) -> None:
    assert VariantConfig.from_dict(json.loads(json.dumps(variant.to_dict()))) == variant


@pytest.mark.parametrize("part", ["model", "training"])
def test_unknown_fields_of_a_file_are_refused(part: str) -> None:
    values = CHAR.to_dict()
    values[part]["momentum"] = 0.9
    with pytest.raises(TypeError, match="momentum"):
        VariantConfig.from_dict(values)


def test_values_of_a_file_are_checked() -> None:
    values = CHAR.to_dict()
    values["model"]["characters"]["filters"] = 0
    with pytest.raises(ValueError, match=r"characters\.filters"):
        VariantConfig.from_dict(values)


def test_changes_reach_model_and_training() -> None:
    changed = BASELINE.with_changes(hidden_size=7, dropout=0.5, epochs=2, learning_rate=1.0)
    assert changed.model == ModelConfig(hidden_size=7, dropout=0.5)
    assert changed.training == TrainingConfig(epochs=2, learning_rate=1.0)
    assert changed.name == "baseline"
    assert BASELINE.model.hidden_size == 100


def test_changes_are_checked() -> None:
    with pytest.raises(ValueError, match="epochs"):
        BASELINE.with_changes(epochs=0)
    with pytest.raises(TypeError, match="momentum"):
        BASELINE.with_changes(momentum=0.9)


def test_configurations_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        BASELINE.training.epochs = 1  # type: ignore[misc]


def test_presets_by_name() -> None:
    assert preset("baseline") is BASELINE
    assert preset("char") is CHAR
    with pytest.raises(ValueError, match=r"'bert'.*baseline, char"):
        preset("bert")


def test_presets_are_what_their_sources_say() -> None:
    assert BASELINE.model == ModelConfig(100, None, "starter", 0.2)
    assert CHAR.model == ModelConfig(100, CharacterConfig(64, 100, 5, 16), "max", 0.2)
    for variant in PRESETS.values():
        training = variant.training
        assert (training.epochs, training.batch_size, training.optimizer) == (30, 64, "adadelta")
        assert (training.learning_rate, training.rho, training.epsilon) == (0.5, 0.9, 1e-6)
        assert (training.clip_norm, training.ema_decay) == (5.0, 0.999)
        assert (training.max_context_tokens, training.max_question_tokens) == (400, 50)


IMPORTS_ALONE = """
import sys

REFUSED = {"prefect", "ray", "mlflow", "pydantic", "pyarrow", "safetensors", "pandas", "gensim"}

class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED | {"tasks", "flows", "infra"}:
            raise ImportError(f"models/ may not import {name}")

sys.meta_path.insert(0, Refusal())
import models.training, models.presets, models.metrics
"""


def test_models_import_with_torch_and_numpy_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS_ALONE], cwd=CHECKOUT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
