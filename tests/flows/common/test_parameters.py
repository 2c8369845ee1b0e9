"""Forms of the flows' parameters, and the variants that they configure."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from prefect.utilities.callables import parameter_schema
from pydantic import BaseModel, TypeAdapter, ValidationError

from flows.build_vocabulary import build_vocabulary
from flows.common.parameters import (
    DISABLED_BY_ZERO,
    CharacterParameters,
    ContextualParameters,
    CorpusParameters,
    DataParameters,
    MixedSource,
    SetName,
    TrainingParameters,
    VectorParameters,
    configure,
    require_contextual_variant,
    vectors_for,
)
from flows.compare_variants import compare_variants
from flows.ingest import ingest
from flows.retrain import retrain
from flows.train import train
from flows.train_embeddings import train_embeddings
from infra.cluster.allotment import Resources
from infra.errors import UserError
from infra.settings import CHECKOUT
from models.configs.presets import PRESETS, preset
from models.configs.variant import CharacterConfig, ContextualConfig, ModelConfig, TrainingConfig
from tasks.datasets.catalog import DATASETS
from tasks.embeddings.formats.export import FILES
from tasks.embeddings.formats.source import NO_VECTORS
from tasks.embeddings.training.config import METHODS
from tasks.text.build_vocabulary import VocabularyParameters
from tests.factories.language_models import write_bilm

FORMS = [
    DataParameters,
    TrainingParameters,
    CharacterParameters,
    VectorParameters,
    VocabularyParameters,
    Resources,
]
form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)


def test_long_name_of_a_set_is_refused() -> None:
    names = TypeAdapter(SetName)
    assert names.validate_python("é" * 50) == "é" * 50
    with pytest.raises(ValidationError, match="has more than 100 bytes; choose a shorter name"):
        names.validate_python("é" * 51)


@form
def test_every_field_has_a_description(form: type[BaseModel]) -> None:
    for name, field in form.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


@form
def test_rejects_unknown_fields(form: type[BaseModel]) -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        form.model_validate({"sede": 1})


@form
def test_every_field_has_a_default(form: type[BaseModel]) -> None:
    assert form.model_validate({}) == form()


@pytest.mark.parametrize(
    ("form", "values"),
    [
        (DataParameters, {"dataset": ""}),
        (CorpusParameters, {"dataset": ""}),
        (DataParameters, {"dev_share": 0}),
        (DataParameters, {"dev_share": 1}),
        (DataParameters, {"seed": -1}),
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
    ],
)
def test_rejects_an_empty_file_name(form: type[BaseModel], field: str) -> None:
    """As a path, it would be the current directory."""
    with pytest.raises(ValidationError) as refused:
        form.model_validate({field: ["a.json", ""]})
    assert [error["loc"] for error in refused.value.errors()] == [(field, 1)]


@pytest.mark.parametrize("flow", [ingest, build_vocabulary, retrain], ids=lambda flow: flow.name)
def test_prefect_schema_includes_choices_and_bounds(flow: Any) -> None:
    schema = parameter_schema(flow.fn)
    dev_share = schema.definitions["DataParameters"]["properties"]["dev_share"]
    assert (dev_share["exclusiveMinimum"], dev_share["exclusiveMaximum"]) == (0, 1)
    assert dev_share["description"] == DataParameters.model_fields["dev_share"].description
    if flow is retrain:
        assert schema.properties["variants"]["items"]["enum"] == list(PRESETS)


DEPLOYED = [ingest, build_vocabulary, train_embeddings, train, compare_variants, retrain]
deployed = pytest.mark.parametrize("flow", DEPLOYED, ids=lambda flow: flow.name)


def shown(flow: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and schema of every field in a flow's form."""
    schema = parameter_schema(flow)
    yield from schema.properties.items()
    for form, definition in schema.definitions.items():
        for name, field in definition.get("properties", {}).items():
            yield f"{form}.{name}", field


@deployed
def test_prefect_schema_has_descriptions_and_defaults(flow: Any) -> None:
    definitions = parameter_schema(flow).definitions
    for place, field in shown(flow):
        described = definitions[Path(field["$ref"]).name] if "$ref" in field else field
        assert described.get("description", "").endswith("."), place
        assert "default" in field or place == "MixedSource.files", place


@deployed
def test_prefect_schema_bounds_every_number(flow: Any) -> None:
    for place, field in shown(flow):
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


def test_new_preset_can_be_selected() -> None:
    program = """
from pydantic import TypeAdapter
from models.configs.presets import CHAR, PRESETS
PRESETS["char-wide"] = CHAR
from flows.common.parameters import Variants
print(TypeAdapter(Variants).validate_python(["char-wide"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "['char-wide']", done.stderr


def test_form_lists_config_fields_in_their_order() -> None:
    characters, contextual, model, training = (
        [field.name for field in fields(config)]
        for config in (CharacterConfig, ContextualConfig, ModelConfig, TrainingConfig)
    )
    assert list(TrainingParameters.model_fields) == [*training, "start_from", *model]
    assert list(CharacterParameters.model_fields) == characters
    assert list(ContextualParameters.model_fields) == contextual


BOUNDS = {
    "minimum": "ge",
    "exclusiveMinimum": "gt",
    "maximum": "le",
    "exclusiveMaximum": "lt",
}


@pytest.mark.parametrize(
    ("form", "config"),
    [
        (TrainingParameters, TrainingConfig),
        (TrainingParameters, ModelConfig),
        (CharacterParameters, CharacterConfig),
        (ContextualParameters, ContextualConfig),
    ],
)
def test_form_has_help_and_bounds_of_config(form: type[BaseModel], config: type) -> None:
    properties = form.model_json_schema()["properties"]
    for option in fields(config):
        shown = properties[option.name]
        number = shown.get("anyOf", [shown])[0]
        number = number.get("items", number)
        bounds = {BOUNDS[name]: bound for name, bound in number.items() if name in BOUNDS}
        by_zero = option.name in {*DISABLED_BY_ZERO, "embedding_size"}
        assert bounds == ({"ge": 0} if by_zero else option.metadata["bounds"]), option.name
        assert shown["description"].startswith(option.metadata["help"]), option.name


@pytest.mark.parametrize(
    ("form", "name", "ending"),
    [
        (
            TrainingParameters,
            "batch_size",
            "workers. Default: 64 (seo2016, char-only, kim-char, elmo: 60; char-selfattn-v1: 32; "
            "docqa: 45; on tiny: 16).",
        ),
        (TrainingParameters, "dropout", "no dropout. Default: 0.2 (on tiny: 0)."),
        (TrainingParameters, "word_vectors", "only. Default: on (char-only: off)."),
        (TrainingParameters, "characters", "preset's value. Default: on (baseline: off)."),
        (
            TrainingParameters,
            "window_stride",
            "0: no windows. Default: off (on covid_qa: 200).",
        ),
        (ContextualParameters, "dropout", "no dropout. Default: 0.5."),
        (CharacterParameters, "kernel_widths", "characters. Default: 5 (kim-char: 1,2,3,4,5,6)."),
    ],
)
def test_descriptions_end_with_preset_values(form: type[BaseModel], name: str, ending: str) -> None:
    assert str(form.model_fields[name].description).endswith(ending)


def test_changes_a_single_character_setting() -> None:
    mine = TrainingParameters(characters=CharacterParameters(max_characters=20))
    before = preset("char").model.characters
    assert before is not None
    assert configure("char", mine.changes()).model.characters == replace(before, max_characters=20)
    with pytest.raises(UserError, match=r"max_characters .* baseline has no character CNN"):
        configure("baseline", mine.changes())


def test_changes_a_single_contextual_setting() -> None:
    mine = TrainingParameters(contextual=ContextualParameters(where="both"))
    changed = configure("char-elmo", mine.changes()).model.contextual
    assert changed == ContextualConfig(where="both")
    assert configure("char", mine.changes()) == preset("char")
    require_contextual_variant(mine, ["char", "char-elmo"])
    require_contextual_variant(TrainingParameters(), ["char"])
    with pytest.raises(UserError, match=r"^training\.contextual\.where has no effect, because no"):
        require_contextual_variant(mine, ["char", "baseline"])


def test_character_embeddings_can_be_disabled() -> None:
    off = TrainingParameters(characters=CharacterParameters(embedding_size=0))
    for name in ("char", "baseline"):
        assert configure(name, off.changes()).model.characters is None
    with pytest.raises(UserError, match="word_vectors is off and characters is empty"):
        configure("char-only", off.changes())
    with pytest.raises(ValidationError, match=r"embedding_size is 0, .* filters has no effect"):
        CharacterParameters(embedding_size=0, filters=[10])


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


def test_zero_disables_preset_and_dataset_settings() -> None:
    optional = [field.name for field in fields(TrainingConfig) if "None" in str(field.type)]
    datasets = [{}, *(dataset.training for dataset in DATASETS.values())]
    trainings = [configure(name, suited).training for name in PRESETS for suited in datasets]
    used = {
        name for name in optional for training in trainings if getattr(training, name) is not None
    }
    assert used == set(DISABLED_BY_ZERO)
    off = TrainingParameters(**dict.fromkeys(DISABLED_BY_ZERO, 0)).changes()
    changed = configure("char", DATASETS["covid_qa"].training, off).training
    assert changed.window is None
    assert changed.max_answer_tokens == 60


LEAST: dict[str, Any] = {
    "epochs": 1,
    "batch_size": 1,
    "optimizer": "adadelta",
    "learning_rate": 1e-9,
    "schedule": "linear",
    "decay_epochs": 1e-9,
    "warmup_steps": 0,
    "rho": 0,
    "epsilon": 1e-300,
    "clip_norm": 0,
    "ema_decay": 0,
    "max_answer_tokens": 1,
    "window_stride": 0,
    "max_context_tokens": 2,
    "max_question_tokens": 1,
    "no_answer_share": 1e-9,
    "expected_no_answer": 1e-9,
    "seed": 0,
    "patience": 1,
    "stop_at_f1": 1e-9,
    "max_minutes": 1e-9,
    "precision": "bfloat16",
    "deterministic": True,
    "hidden_size": 1,
    "word_vectors": True,
    "unknown_words": "random",
    "highway": "none",
    "recurrent": "gru",
    "query_to_context": "max",
    "self_attention": "none",
    "output_reads": "attention",
    "end_pointer": "independent",
    "dropout": 0,
    "dropout_form": "inputs",
}
LEAST_CHARACTERS: dict[str, Any] = {
    "embedding_size": 1,
    "kernel_widths": [1],
    "filters": [1],
    "max_characters": 1,
}
LEAST_CONTEXTUAL: dict[str, Any] = {"where": "output", "dropout": 0, "l2": 0}


def test_form_minimums_are_valid_for_every_preset() -> None:
    assert {*LEAST, "characters", "contextual", "start_from"} == set(
        TrainingParameters.model_fields
    )
    assert set(LEAST_CHARACTERS) == set(CharacterParameters.model_fields)
    assert set(LEAST_CONTEXTUAL) == set(ContextualParameters.model_fields)
    for name, variant in PRESETS.items():
        groups: dict[str, Any] = {}
        if variant.model.characters is not None:
            groups["characters"] = CharacterParameters(**LEAST_CHARACTERS)
        if variant.model.contextual is not None:
            groups["contextual"] = ContextualParameters(**LEAST_CONTEXTUAL)
        least = TrainingParameters(**LEAST, **groups)
        changed = configure(name, least.changes())  # type: ignore[arg-type]
        assert (changed.model.characters is None) == (variant.model.characters is None)
        values = {**vars(changed.model), **vars(changed.training)}
        assert {key: values[key] for key in LEAST} == LEAST | dict.fromkeys(DISABLED_BY_ZERO)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, r"^epochs must be at least 1 and at most 1000, not 0\.$"),
        ({"dropout": 1.0}, r"^dropout must be at least 0 and at most 0\.99, not 1\.0\.$"),
        ({"optimizer": "sgd"}, "'adadelta' or 'adam', not 'sgd'"),
        ({"word_vectors": False}, r"^word_vectors is off and characters is empty\. .*\.$"),
    ],
)
def test_invalid_changes_raise_a_user_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        configure("baseline", changes)


def test_unknown_variant_error_lists_known_variants() -> None:
    with pytest.raises(UserError, match=r"'cahr'; expected one of: baseline, char, .*char-elmo\.$"):
        configure("cahr", {})  # type: ignore[arg-type]


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
    corpus = CorpusParameters(files=["texts"])
    fasttext, glove = (VectorParameters(source=m, corpus=corpus) for m in ("fasttext", "glove"))
    assert vectors_for([subword_variant], fasttext) == fasttext
    with pytest.raises(UserError, match="vectors trained with glove have no n-grams"):
        vectors_for([preset("char"), subword_variant], glove)


def test_vectors_made_from_texts_need_a_corpus() -> None:
    fields = {"source": "glove-6b-50d+skipgram"}
    with pytest.raises(ValidationError, match="reads a corpus; set"):
        VectorParameters.model_validate(fields)
    VectorParameters.model_validate({**fields, "corpus": {"dataset": "tiny"}})
