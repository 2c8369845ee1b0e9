"""The command of a run, parsed back by the command line."""

import shlex
from inspect import signature
from typing import Any

import pytest
from prefect import Flow

from flows.__main__ import build_app
from flows.common.command_line import command_of
from flows.common.parameters import MixedSource, VectorParameters
from flows.compare_variants import compare_variants
from flows.evaluate_embeddings import evaluate_embeddings
from flows.retrain import retrain
from flows.train import train
from flows.train_embeddings import train_embeddings

APP = build_app()


def parsed(*words: str) -> dict[str, Any]:
    """The flow's parameters from the words of its command line."""
    command, bound, _ = APP.parse_args(words, exit_on_error=False, print_error=False)
    defaults = {name: p.default for name, p in signature(command).parameters.items()}
    return defaults | bound.arguments


def repeated(flow: Flow[..., Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters that the command of a run has."""
    program, *words = shlex.split(command_of(flow.name, parameters))
    assert program == "bidaflow"
    return parsed(*words)


COMMANDS = {
    "retrain": retrain,
    "train": train,
    "compare": compare_variants,
    "embeddings evaluate": evaluate_embeddings,
    "embeddings train": train_embeddings,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_defaults_are_repeated(command: str) -> None:
    flow = COMMANDS[command]
    assert repeated(flow, parsed(*command.split())) == parsed(*command.split())


@pytest.mark.parametrize(
    "words",
    [
        ["--data.dataset", "my questions; rm -rf ~ \"'$(id)"],
        ["--data.train-files", "a.json,b c.json"],
        ["--data.train-files", '["a,b.json", "c.json"]'],
        ["--data.mix", '[{"files": ["squad-v1.1", "ä.json"], "weight": 0.5}]'],
        ["--vocabulary.no-lower-case", "--resources.no-gpu", "--data.repair"],
        ["--training.learning-rate", "1e-05", "--training.epochs", "3", "--variants", "char"],
        ["--data.dev-files", '["Who, when?", "[q7]", "{", "two\\nlines"]'],
        ["--vectors.source=-file.txt", "--data.dev-files=--yes"],
        [
            "--vectors.source",
            "cbow",
            "--vectors.corpus-files",
            "a.txt",
            "--vectors.dimension",
            "50",
        ],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_changed_fields_are_repeated(words: list[str]) -> None:
    parameters = parsed("retrain", *words)
    assert parameters != parsed("retrain")
    assert repeated(retrain, parameters) == parameters


def test_command_names_only_what_was_changed() -> None:
    parameters = parsed("retrain", "--training.epochs", "3")
    assert command_of("retrain", parameters) == (
        "bidaflow retrain --variants baseline,char --training.epochs 3"
    )


def test_lists_of_vectors_are_repeated() -> None:
    sets = [VectorParameters(source="a,b.txt"), VectorParameters(source="none")]
    parameters = parsed("compare", "--seeds", "1,2") | {"vectors": sets}
    assert repeated(compare_variants, parameters) == parameters


def test_mixed_sources_are_repeated() -> None:
    parameters = parsed("retrain")
    data = parameters["data"].model_copy(update={"mix": [MixedSource(files=["a"], weight=2)]})
    assert repeated(retrain, parameters | {"data": data}) == parameters | {"data": data}


def test_secrets_in_addresses_are_masked() -> None:
    address, other = (
        "https://host/a.json?token=hidden",
        "https://me:hidden@host/b,c.json?key=hidden",
    )
    parameters = {"vectors": address, "files": [address, address], "others": [other]}
    command = command_of("train", parameters)
    assert "hidden" not in command
    assert shlex.split(command)[-5:] == [
        "https://host/a.json?token=***",
        "--files",
        "https://host/a.json?token=***,https://host/a.json?token=***",
        "--others",
        '["https://***@host/b,c.json?key=***"]',
    ]
