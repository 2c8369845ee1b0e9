"""Presets of the user's own, from a Python file."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from prefect import runtime
from prefect.utilities.callables import parameter_schema
from pydantic import TypeAdapter, ValidationError

from flows.common.parameters import TrainingParameters, Variants
from flows.common.presets import check_variant, configure, find_preset, known_presets
from flows.retrain import retrain
from infra.errors import UserError
from infra.settings import CHECKOUT
from models.configs.presets import CHAR, PRESETS
from models.configs.variant import VariantConfig
from tasks.datasets.catalog import DATASETS

DOCUMENT = (CHECKOUT / "docs" / "variants.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The example of the documentation."""
    file = tmp_path / "my_presets.py"
    file.write_text(EXAMPLE, encoding="utf-8")
    return file


def test_documented_preset_is_found_and_stored_as_json(file: Path) -> None:
    spec = f"{file}:wide"
    assert TypeAdapter(Variants).validate_python(["char", spec]) == ["char", spec]
    wide = find_preset(spec)
    assert (wide.model.hidden_size, wide.model.characters) == (128, CHAR.model.characters)
    file.unlink()
    stored = json.loads(json.dumps(wide.to_dict()))
    assert VariantConfig.from_dict(stored) == wide, "loading a model needs no file"


def test_own_preset_takes_options_alone(file: Path) -> None:
    mine = TrainingParameters(epochs=2)
    changed = configure(f"{file}:wide", DATASETS["tiny"].training, mine.changes())
    assert (changed.training.epochs, changed.model.hidden_size) == (2, 128)
    assert changed.training.batch_size == 64, "not that of tiny"


def test_deployments_run_no_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("raise SystemExit('the file is run')")
    spec = f"{file}:wide"
    assert check_variant(spec) == spec, "checking it does not run it"
    monkeypatch.setattr(runtime, "deployment", SimpleNamespace(id="of a deployment"))
    with pytest.raises(UserError, match=r"in a terminal only.* Set BIDAFLOW_PRESETS"):
        find_preset(spec)
    enum = parameter_schema(retrain).properties["variants"]["items"]["enum"]
    assert enum == list(PRESETS)


def test_form_offers_the_presets_of_the_operator(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIDAFLOW_PRESETS", str(file))
    assert list(known_presets()) == [*PRESETS, "wide"]
    monkeypatch.setattr(runtime, "deployment", SimpleNamespace(id="of a deployment"))
    assert find_preset(check_variant("wide")).model.hidden_size == 128


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_such", r"can't be run: ModuleNotFoundError: No module named"),
        ("from models.configs.presets import CHAR", "makes no VariantConfig"),
        (EXAMPLE.replace('"wide"', '"char"'), "names a preset 'char'. Choose another name"),
        (EXAMPLE.replace('"wide"', '"a/b"'), "names a preset 'a/b'. Choose another name"),
        (EXAMPLE.replace('"adam"', '"adm"'), r"training\.optimizer: .*'adam', not 'adm'\."),
        (EXAMPLE.replace("0.001", "0.3"), "can't be run: ValueError: learning_rate 0.3 is too"),
        (EXAMPLE.replace('"wide"', '"widest"'), "Unknown variant 'wide'; expected one of: widest"),
    ],
)
def test_wrong_files_are_refused(file: Path, text: str, message: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        find_preset(f"{file}:wide")


def test_missing_files_and_unknown_names_are_refused() -> None:
    with pytest.raises(UserError, match=r"gone\.py can't be run: FileNotFoundError"):
        find_preset("gone.py:wide")
    with pytest.raises(ValidationError, match=r"unknown variant.*char-elmo, or FILE\.py:NAME"):
        TypeAdapter(Variants).validate_python(["cahr"])
