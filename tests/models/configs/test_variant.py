"""Configurations: their validation, serialization and presets; which packages models/ needs."""

import json
import subprocess
import sys
from typing import Any

import pytest

from infra.settings import CHECKOUT
from models.configs.presets import BASELINE, CHAR, PRESETS, preset
from models.configs.variant import CharacterConfig, ModelConfig, TrainingConfig, VariantConfig


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("filters", ()),
        ("kernel_widths", (17,)),
    ],
)
def test_rejects_invalid_character_config(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"^characters\.{field}\b.*\.$"):
        CharacterConfig(**{field: value})


IMPOSSIBLE: list[tuple[type, dict[str, Any], tuple[str, str]]] = [
    (
        TrainingConfig,
        {"window_stride": 30, "max_context_tokens": 30},
        ("window_stride (30)", "max_context_tokens (30)"),
    ),
    (
        CharacterConfig,
        {"kernel_widths": (7, 3), "filters": (1, 1), "max_characters": 6},
        ("characters.kernel_widths (up to 7)", "characters.max_characters (6)"),
    ),
    (
        CharacterConfig,
        {"kernel_widths": (1, 2), "filters": (5,)},
        ("characters.kernel_widths has length 2", "characters.filters has length 1"),
    ),
    (ModelConfig, {"word_vectors": False}, ("word_vectors", "characters")),
    (
        ModelConfig,
        {"word_vectors": False, "characters": CharacterConfig(), "unknown_words": "trainable"},
        ("word_vectors", "unknown_words 'trainable'"),
    ),
    *(
        (
            ModelConfig,
            {"output_reads": "self-attention", "self_attention": kind},
            ("output_reads", f"self_attention '{kind}'"),
        )
        for kind in ("none", "trilinear")
    ),
    (
        ModelConfig,
        {"output_reads": "self-attention", "self_attention": "dot", "end_pointer": "chained"},
        ("output_reads", "end_pointer"),
    ),
]


@pytest.mark.parametrize(("config", "values", "named"), IMPOSSIBLE)
def test_invalid_combinations_name_both_fields(
    config: type, values: dict[str, Any], named: tuple[str, str]
) -> None:
    with pytest.raises(ValueError, match=r"\.$") as caught:
        config(**values)
    for part in named:
        assert part in str(caught.value)


@pytest.mark.parametrize("variant", [*PRESETS.values(), CHAR.with_changes(seed=3, dropout=0.0)])
def test_config_round_trips_through_json(variant: VariantConfig) -> None:
    assert VariantConfig.from_dict(json.loads(json.dumps(variant.to_dict()))) == variant


@pytest.mark.parametrize("part", ["model", "training"])
def test_from_dict_rejects_unknown_fields(part: str) -> None:
    values = CHAR.to_dict()
    values[part]["momentum"] = 0.9
    with pytest.raises(TypeError, match="momentum"):
        VariantConfig.from_dict(values)


def test_with_changes_updates_model_and_training() -> None:
    changed = BASELINE.with_changes(hidden_size=7, dropout=0.5, epochs=2, learning_rate=1.0)
    assert changed.model == ModelConfig(hidden_size=7, dropout=0.5)
    assert changed.training == TrainingConfig(epochs=2, learning_rate=1.0)
    assert changed.name == "baseline"
    assert BASELINE.model.hidden_size == 100


def test_presets_are_found_by_name() -> None:
    for name, variant in PRESETS.items():
        assert variant.name == name
        assert preset(name) is variant
    with pytest.raises(ValueError, match=r"'bert'.*baseline, char, .*docqa, elmo, char-elmo\.$"):
        preset("bert")


def test_cs224n_presets_match_the_report() -> None:
    assert BASELINE.model == ModelConfig(hidden_size=100, query_to_context="starter", dropout=0.2)
    assert CHAR.model.characters == CharacterConfig(64, (5,), (100,), 16)
    report = {
        **{"epochs": 30, "batch_size": 64, "optimizer": "adadelta", "learning_rate": 0.5},
        **{"rho": 0.9, "epsilon": 1e-6, "clip_norm": 5.0, "ema_decay": 0.999},
        **{"max_context_tokens": 400, "max_question_tokens": 50, "max_answer_tokens": 15},
    }
    for name in ("baseline", "char", "char-selfattn", "char-selfattn-dot"):
        assert report.items() <= vars(PRESETS[name].training).items()
    sizes = {v.name: (v.model.hidden_size, v.training.batch_size) for v in PRESETS.values()}
    assert sizes["char-selfattn"] == sizes["char-selfattn-dot"] == (75, 64)
    assert sizes["char-selfattn-v1"] == (30, 32)


def test_original_presets_match_their_sources() -> None:
    seo = {
        **{"epochs": 12, "batch_size": 60, "optimizer": "adadelta", "learning_rate": 0.5},
        **{"rho": 0.95, "epsilon": 1e-8, "max_context_tokens": 400, "max_question_tokens": 30},
    }
    for name in ("seo2016", "char-only", "kim-char"):
        assert seo.items() <= vars(PRESETS[name].training).items()
        assert {"hidden_size": 100, "dropout": 0.2}.items() <= vars(PRESETS[name].model).items()
    sizes = {name: vars(variant.model)["characters"] for name, variant in PRESETS.items()}
    assert sizes["seo2016"] == CharacterConfig(8, (5,), (100,), 16)
    assert sizes["char-only"] == CharacterConfig(50, (5,), (100,), 16)
    widths = tuple(range(1, 7))
    assert sizes["kim-char"] == CharacterConfig(50, widths, tuple(25 * w for w in widths), 16)
    docqa = {
        **{"epochs": 26, "batch_size": 45, "learning_rate": 1.0},
        **{"max_answer_tokens": 17, "ema_decay": 0.999},
    }
    assert docqa.items() <= vars(PRESETS["docqa"].training).items()


IMPORTS_ALONE = """
import sys

REFUSED = {"prefect", "ray", "mlflow", "pydantic", "pyarrow", "safetensors", "pandas", "gensim"}

class Refusal:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED | {"tasks", "flows", "infra"}:
            raise ImportError(f"models/ may not import {name}")

sys.meta_path.insert(0, Refusal())
import models.trainer, models.configs.presets, models.squad_metrics
"""


def test_models_need_only_torch_and_numpy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS_ALONE], cwd=CHECKOUT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_rejects_adam_with_adadelta_learning_rate() -> None:
    with pytest.raises(ValueError, match=r"^learning_rate 0\.5 is too high for optimizer 'adam'"):
        TrainingConfig(optimizer="adam")
