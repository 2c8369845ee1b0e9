"""Forms of the flows' parameters, and the variants that they configure."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect.utilities.callables import parameter_schema
from pydantic import BaseModel, TypeAdapter, ValidationError

from flows.common.parameters import (
    CorpusParameters,
    DataParameters,
    MixedSource,
    NamedSet,
    SetName,
    TrainingParameters,
    VectorParameters,
    VocabularyParameters,
)
from flows.common.presets import configure
from flows.common.vectors import vectors_for
from flows.compare_variants import compare_variants
from flows.ingest import ingest
from flows.retrain import retrain
from flows.train import train
from flows.train_embeddings import train_embeddings
from infra.cluster.allotment import Resources
from infra.errors import UserError
from models.configs.presets import PRESETS, preset
from tasks.datasets.catalog import DATASETS
from tasks.embeddings.formats.export import FILES
from tasks.embeddings.formats.source import NO_VECTORS
from tasks.embeddings.training.config import METHODS
from tests.factories.language_models import write_bilm

FORMS = [
    DataParameters,
    TrainingParameters,
    VectorParameters,
    VocabularyParameters,
    Resources,
]
form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)


def test_set_of_vectors_or_language_model_is_named(root: Path) -> None:
    write_bilm(root / "embeddings" / "general")
    names = TypeAdapter(NamedSet)
    for name in ("glove-6b-50d", "general", "made.vec"):
        assert names.validate_python(name) == name
    for name, message in (("none", "is not valid here"), ("gone", "unknown vectors 'gone'")):
        with pytest.raises(ValidationError, match=message):
            names.validate_python(name)


def test_long_name_of_a_set_is_refused() -> None:
    names = TypeAdapter(SetName)
    assert names.validate_python("é" * 50) == "é" * 50
    with pytest.raises(ValidationError, match="has more than 100 bytes; choose a shorter name"):
        names.validate_python("é" * 51)


@form
def test_fields_have_defaults_and_others_are_rejected(form: type[BaseModel]) -> None:
    assert form.model_validate({}) == form()
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        form.model_validate({"sede": 1})


@pytest.mark.parametrize(
    ("form", "values"),
    [
        (DataParameters, {"dataset": ""}),
        (CorpusParameters, {"dataset": ""}),
        (DataParameters, {"dev_share": 0}),
        (DataParameters, {"dev_share": 1}),
        (DataParameters, {"seed": -1}),
        (DataParameters, {"seed": 2**32}),
        (TrainingParameters, {"seed": 2**64}),
        (TrainingParameters, {"patience": 2**63}),
        (TrainingParameters, {"epochs": 0}),
        (TrainingParameters, {"batch_size": 2.5}),
        (TrainingParameters, {"optimizer": "sgd"}),
        (TrainingParameters, {"learning_rate": float("nan")}),
        (TrainingParameters, {"learning_rate": float("inf")}),
        (TrainingParameters, {"self_attention": "additif"}),
        (TrainingParameters, {"dropout": 1}),
        (TrainingParameters, {"ema_decay": 1}),
        (Resources, {"workers": 0}),
        (Resources, {"cpus_per_worker": -1}),
    ],
)
def test_rejects_values_out_of_bounds(form: type[BaseModel], values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        form.model_validate(values)
    assert [error["loc"] for error in refused.value.errors()] == [tuple(values)]


@pytest.mark.parametrize(
    ("form", "field"),
    [
        (DataParameters, "train_files"),
        (DataParameters, "dev_files"),
        (MixedSource, "files"),
        (CorpusParameters, "files"),
        (VectorParameters, "corpus_files"),
    ],
)
def test_rejects_an_empty_file_name(form: type[BaseModel], field: str) -> None:
    """As a path, it would be the current directory."""
    with pytest.raises(ValidationError) as refused:
        form.model_validate({field: ["a.json", ""]})
    assert [error["loc"] for error in refused.value.errors()] == [(field, 1)]


DEPLOYED = [ingest, train_embeddings, train, compare_variants, retrain]
deployed = pytest.mark.parametrize("flow", DEPLOYED, ids=lambda flow: flow.name)


def shown(flow: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and schema of every field in a flow's form."""
    schema = parameter_schema(flow)
    yield from schema.properties.items()
    for form, definition in schema.definitions.items():
        for name, field in definition.get("properties", {}).items():
            yield f"{form}.{name}", field


@deployed
def test_schema_has_words_defaults_and_bounds(flow: Any) -> None:
    definitions = parameter_schema(flow).definitions
    for place, field in shown(flow):
        described = definitions[Path(field["$ref"]).name] if "$ref" in field else field
        assert re.search(r"\.( \[[^]]+\])?$", described.get("description", "")), place
        required = ("MixedSource.files", "data", "DataParameters.dataset")
        assert "default" in field or place in required, place
        for kind in (field, field.get("items", {}), *field.get("anyOf", ())):
            if kind.get("type") in ("integer", "number"):
                assert {"minimum", "exclusiveMinimum"} & kind.keys(), place


@pytest.mark.parametrize(
    ("flow", "place", "choices"),
    [
        (train, "variants", list(PRESETS)),
        (compare_variants, "variants", list(PRESETS)),
        (train, "TrainingParameters.optimizer", ["adadelta", "adam"]),
        (train, "DataParameters.overlap", ["refuse", "leave out"]),
        (train_embeddings, "EmbeddingParameters.method", [*METHODS, "elmo"]),
        (train_embeddings, "exports", list(FILES)),
    ],
)
def test_prefect_schema_lists_choices(flow: Any, place: str, choices: list[str]) -> None:
    field = dict(shown(flow))[place]
    kinds = (field, field.get("items", {}), *field.get("anyOf", ()))
    assert [kind["enum"] for kind in kinds if "enum" in kind] == [choices]


def test_dataset_help_names_every_known_dataset() -> None:
    description = str(DataParameters.model_fields["dataset"].description)
    assert [name for name in DATASETS if name not in description] == []


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        (
            "batch_size",
            "workers. Default: 64 (seo2016, char-only, kim-char, elmo: 60; char-selfattn-v1: 32; "
            "docqa: 45; on tiny: 16). [≥ 1]",
        ),
        ("dropout", "no dropout. Default: 0.2 (on tiny: 0). [0 to 0.99]"),
        ("max_minutes", "evaluation follows. Default: off. [> 0]"),
        ("window_stride", "0: no windows. Default: off (on covid_qa: 200). [≥ 0]"),
    ],
)
def test_descriptions_end_with_preset_values(name: str, ending: str) -> None:
    assert str(TrainingParameters.model_fields[name].description).endswith(ending)


def test_empty_form_changes_nothing() -> None:
    assert TrainingParameters().changes() == {}
    assert configure("char", {}, TrainingParameters().changes()) == preset("char")


def test_user_settings_override_dataset_settings() -> None:
    suited = DATASETS["tiny"].training
    before = dict(suited)
    mine = TrainingParameters(epochs=2, hidden_size=12, dropout=0.0)
    changed = configure("char", suited, mine.changes())
    assert changed.training.epochs == 2
    assert changed.training.learning_rate == suited["learning_rate"]
    assert (changed.model.hidden_size, changed.model.dropout) == (12, 0.0)
    assert changed.model.characters == preset("char").model.characters
    assert changed.name == "char"
    assert suited == before, "the catalogue is not modified"


def test_zero_disables_windows_of_a_dataset() -> None:
    off = TrainingParameters(window_stride=0).changes()
    changed = configure("char", DATASETS["covid_qa"].training, off).training
    assert changed.window is None
    assert changed.max_answer_tokens == 60


LEAST: dict[str, Any] = {
    "epochs": 1,
    "optimizer": "adadelta",
    "learning_rate": 1e-9,
    "patience": 1,
    "batch_size": 1,
    "max_minutes": 1e-9,
    "precision": "bfloat16",
    "seed": 0,
    "hidden_size": 1,
    "dropout": 0,
    "max_context_tokens": 2,
    "max_answer_tokens": 1,
    "window_stride": 0,
    "unknown_words": "zero",
    "expected_no_answer": 1e-9,
}


def test_form_minimums_are_valid_for_every_preset() -> None:
    assert {*LEAST, "start_from"} == set(TrainingParameters.model_fields)
    for name in PRESETS:
        changed = configure(name, TrainingParameters(**LEAST).changes())
        values = {**vars(changed.model), **vars(changed.training)}
        assert {key: values[key] for key in LEAST} == LEAST | {"window_stride": None}


def test_impossible_changes_raise_a_user_error() -> None:
    with pytest.raises(UserError, match=r"^word_vectors is off and characters is empty\. .*\.$"):
        configure("baseline", {"word_vectors": False})


@pytest.mark.parametrize("source", ["nowhere.txt", "~/nowhere.zip"])
def test_vector_source_may_not_exist_yet(source: str) -> None:
    assert Path(VectorParameters(source=source).source).name == Path(source).name


def test_vectors_are_used_only_by_word_level_variants() -> None:
    chosen = VectorParameters(source="mine.txt")
    char, char_only = preset("char"), preset("char-only")
    assert vectors_for([char, char_only], chosen) == chosen
    assert vectors_for([char_only], chosen).source == NO_VECTORS
    with pytest.raises(UserError, match=r"vectors\.source is none.*variant char .*word_vectors"):
        vectors_for([char_only, char], VectorParameters(source=NO_VECTORS))


def test_contextual_variants_need_a_language_model(root: Path) -> None:
    write_bilm(root / "embeddings" / "general")
    char, char_elmo, char_only = preset("char"), preset("char-elmo"), preset("char-only")
    chosen = VectorParameters(contextual="general")
    assert vectors_for([char, char_elmo], chosen) == chosen
    assert vectors_for([char], chosen) == VectorParameters(), "no variant reads it"
    elmo_only = configure("char-elmo", {"word_vectors": False})
    expected = VectorParameters(source=NO_VECTORS, contextual="general")
    assert vectors_for([char_only, elmo_only], chosen) == expected
    with pytest.raises(UserError, match=r"^The variant char-elmo reads .* Set vectors\.contextual"):
        vectors_for([char, char_elmo], VectorParameters())
    misspelt = VectorParameters(contextual="genral")
    assert vectors_for([char], misspelt).contextual is None
    with pytest.raises(UserError, match=r"^No language model genral\. Expected the name of one"):
        vectors_for([char_elmo], misspelt)


def test_rejects_subword_for_methods_without_ngrams() -> None:
    subword_variant = configure("char", {"unknown_words": "subword"})
    fasttext, glove = (
        VectorParameters(source=method, corpus_files=["texts"]) for method in ("fasttext", "glove")
    )
    assert vectors_for([subword_variant], fasttext) == fasttext
    with pytest.raises(UserError, match="'subword', but glove has no n-grams"):
        vectors_for([preset("char"), subword_variant], glove)


def test_vectors_made_from_texts_need_a_corpus() -> None:
    fields = {"source": "glove-6b-50d+skipgram"}
    with pytest.raises(ValidationError, match="reads a corpus; set"):
        VectorParameters.model_validate(fields)
    VectorParameters.model_validate({**fields, "corpus_dataset": "tiny"})
