"""The schema from which Prefect draws the forms of the deployments."""

from collections.abc import Iterator
from typing import Any

import pytest
from prefect import Flow
from prefect.utilities.schema_tools.validation import build_error_obj, validate

from flows.compare_variants import compare_variants
from flows.evaluate_embeddings import evaluate_embeddings
from flows.retrain import retrain
from flows.train_embeddings import train_embeddings
from infra.services.form_schema import form_schema

FLOWS = [retrain, compare_variants, train_embeddings, evaluate_embeddings]


def form(flow: Flow[..., Any] = retrain) -> dict[str, Any]:
    return form_schema(flow.parameters.model_dump())


def errors(parameters: dict[str, Any]) -> list[Any]:
    """The error messages of the form, by field, for `tiny` unless the data are named."""
    named = {"data": {"dataset": "tiny"}, **parameters}
    found: list[Any] = build_error_obj(validate(named, form()))["errors"]
    return found


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for group in [schema, *schema["definitions"].values()]:
        yield from group.get("properties", {}).items()


@pytest.mark.parametrize("flow", FLOWS)
def test_no_field_asks_for_a_type_or_is_folded(flow: Flow[..., Any]) -> None:
    """The form draws an `anyOf` as buttons, and forgets what was typed in the others."""
    for name, field in fields(form(flow)):
        assert "anyOf" not in field, name
        assert {"type", "enum", "$ref"} & field.keys(), name
        assert field.get("default", ...) is not None, name


@pytest.mark.parametrize("flow", FLOWS)
def test_defaults_are_valid(flow: Flow[..., Any]) -> None:
    schema = form(flow)
    defaults = {name: field.get("default") for name, field in schema["properties"].items()}
    chosen = {k: v for k, v in defaults.items() if v is not None}
    required = {"data": {"dataset": "tiny"}} if flow is retrain else {}
    required |= {"data": [{"dataset": "tiny"}]} if flow is compare_variants else {}
    assert validate({**chosen, **required}, schema) == []


def test_essential_fields_come_first() -> None:
    schema = form()
    first = {name: list(group["properties"]) for name, group in schema["definitions"].items()}
    assert list(schema["properties"])[:4] == ["data", "variants", "training", "vectors"]
    assert first["DataParameters"][0] == "dataset"
    assert first["TrainingParameters"][:4] == ["epochs", "optimizer", "learning_rate", "patience"]
    assert first["VectorParameters"][0] == "source"


@pytest.mark.parametrize("parameters", [{}, {"data": {}}, {"data": {"dataset": None}}])
def test_a_dataset_must_be_chosen(parameters: dict[str, Any]) -> None:
    """ "Quick run" and a cleared field would otherwise train `tiny`."""
    assert validate(parameters, form()) != []
    assert "default" not in dict(fields(form()))["dataset"]


def test_titles_are_plain_words() -> None:
    titles = dict(fields(form()))
    assert titles["cpus_per_worker"]["title"] == "CPUs per worker"
    assert titles["hidden_size"]["title"] == "Hidden size"
    assert titles["gpu"]["title"] == "GPU"


def test_choices_of_optional_fields_are_kept() -> None:
    found = dict(fields(form()))
    assert found["optimizer"]["enum"] == ["adadelta", "adam", None]
    assert found["gpu"]["enum"] == [True, False, None]


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"training": {}},
        {"training": {"epochs": 3, "precision": "bfloat16"}},
        # Callers of Prefect's API can send null for an empty field.
        {"training": {"epochs": None, "optimizer": None}, "resources": {"gpu": None}},
        {"data": {"dataset": "data/own"}},
        {"data": {"dataset": "s3://bucket/own"}},
        {"data": {"dataset": "own.jsonl"}},
        {"data": {"dataset": "own", "train_files": ["a.json"]}},
    ],
)
def test_valid_parameters(parameters: dict[str, Any]) -> None:
    assert errors(parameters) == []


def test_errors_are_reported_at_their_fields() -> None:
    (training,) = errors({"training": {"epochs": 0}})
    (epochs,) = training["errors"]
    assert epochs == {"property": "epochs", "errors": ["0 is less than the minimum of 1"]}
    assert "sgd" in str(errors({"training": {"optimizer": "sgd"}}))


def test_wrong_types_do_not_break_the_form() -> None:
    assert "'many' is not" in str(errors({"training": {"epochs": "many", "seed": -1}}))


def test_refuses_unknown_datasets_with_the_known_ones() -> None:
    (group,) = errors({"data": {"dataset": "sqaud-v1.1"}})
    (field,) = group["errors"]
    assert field["property"] == "dataset"
    assert field["errors"][0].startswith("'sqaud-v1.1' is not one of ['tiny', 'squad-v1.1', ")


def test_unknown_parameters_are_refused() -> None:
    assert "stray" in str(errors({"stray": 1}))
    assert "stray" in str(errors({"training": {"stray": 1}}))
