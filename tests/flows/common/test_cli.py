"""Command-line flags, and the error messages for invalid ones."""

import re
import shlex
import subprocess
from typing import Any

import pytest
from pydantic import BaseModel

from flows.common.cli import parse_parameters
from flows.common.parameters import (
    CharacterParameters,
    DataParameters,
    MixedSource,
    TrainingParameters,
    VectorParameters,
)
from flows.compare_variants import compare_variants
from flows.evaluate_embeddings import evaluate_embeddings
from flows.retrain import retrain
from flows.train_embeddings import train_embeddings
from infra.ray_cluster import Resources
from infra.settings import CHECKOUT
from tasks.evaluation.promotion_rule import PromotionRule
from tasks.text.build_vocabulary import VocabularyParameters

GROUPS: dict[str, type[BaseModel]] = {
    "data": DataParameters,
    "vectors": VectorParameters,
    "vocabulary": VocabularyParameters,
    "training": TrainingParameters,
    "resources": Resources,
    "promotion": PromotionRule,
}
DEFAULTS = {name: group() for name, group in GROUPS.items()} | {
    "variants": ["baseline", "char"],
    "examples": [],
}


def read(*flags: str) -> dict[str, Any]:
    return parse_parameters(list(flags), retrain)


def refused(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """The exit message or status for these flags, and the text on stderr."""
    with pytest.raises(SystemExit) as ended:
        read(*flags)
    assert ended.value.code not in (0, None)
    output = f"{ended.value.code}\n{capsys.readouterr().err}"
    assert "Traceback" not in output
    return output


def test_no_flags_give_the_flow_defaults() -> None:
    assert read() == DEFAULTS


def test_each_flag_type_sets_its_field() -> None:
    flags = {
        "--data.dataset": "my questions",
        "--data.mix": '[{"files": ["squad-v1.1"], "weight": 0.5}]',
        "--data.train-files": "a.json,b c.json",
        "--data.dev-share": "0.25",
        "--variants": "char",
        "--vocabulary.min-count": "3",
        "--training.batch-size": "16",
        "--training.optimizer": "adam",
        "--training.learning-rate": "1e-3",
        "--resources.gpu": "false",
        "--examples": "Who wrote it?,q7",
    }
    parsed = read(*(part for flag in flags.items() for part in flag), "--no-vocabulary.lower-case")
    assert parsed == {
        "data": DataParameters(
            dataset="my questions",
            mix=[MixedSource(files=["squad-v1.1"], weight=0.5)],
            train_files=["a.json", "b c.json"],
            dev_share=0.25,
        ),
        "variants": ["char"],
        "vectors": VectorParameters(),
        "vocabulary": VocabularyParameters(min_count=3, lower_case=False),
        "training": TrainingParameters(batch_size=16, optimizer="adam", learning_rate=1e-3),
        "resources": Resources(gpu=False),
        "promotion": PromotionRule(),
        "examples": ["Who wrote it?", "q7"],
    }


@pytest.mark.parametrize(
    "flags",
    [
        ["--variants", "char,baseline"],
        ["--variants=char,baseline"],
        ["--variants", "char", "--variants", "baseline"],
        ["--variants", '["char", "baseline"]'],
    ],
)
def test_lists_accept_commas_repeats_and_json(flags: list[str]) -> None:
    assert read(*flags)["variants"] == ["char", "baseline"]


def make_flags(target: str, *variables: str) -> list[str]:
    """The flags that a Makefile target passes to its flow."""
    command = ["make", "--dry-run", "--no-print-directory", "INSTALLED=", target, *variables]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=CHECKOUT)
    words = shlex.split(printed.stdout.replace("\\\n", ""))
    *_, last = (number for number, word in enumerate(words) if word == "-m")
    return words[last + 2 :]


def test_make_passes_vector_settings_to_the_flow() -> None:
    trained = read(*make_flags("retrain", "CORPUS=texts/,b.txt", "METHOD=fasttext", "EPOCHS=2"))
    assert trained["vectors"].source == "fasttext" and trained["training"].epochs == 2
    assert trained["vectors"].corpus.files == ["texts/", "b.txt"]
    flags = make_flags("compare", "VECTORS=my set.txt,glove-6b-50d", "SEEDS=0,1")
    compared = parse_parameters(flags, compare_variants)
    assert [source.source for source in compared["vectors"]] == ["my set.txt", "glove-6b-50d"]
    with pytest.raises(subprocess.CalledProcessError) as refused:
        make_flags("retrain", "VECTORS=a.txt", "METHOD=glove")
    assert "VECTORS= and METHOD= both choose" in refused.value.stderr


@pytest.mark.parametrize(
    ("target", "variable"),
    [
        ("compare", "METHOD=skipgram"),
        ("compare", "CORPUS=texts/"),
        ("compare", "TRAIN=a.json"),
        ("compare", "DEV=b.json"),
        ("embeddings", "VECTORS=a.txt"),
        ("embeddings", "VARIANTS=char"),
        ("evaluate", "CORPUS=texts/"),
        ("evaluate", "EPOCHS=2"),
        ("retrain", "SEEDS=0,1"),
        ("check", "DATASET=squad-v1.1"),
        ("lineage", "DATASET=tiny"),
        ("prune", "ARGS=--yes"),
        ("differences", "RUN=champion"),
        ("rollback", "RUN=champion"),
    ],
)
def test_make_rejects_variables_a_target_does_not_take(target: str, variable: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        make_flags(target, variable)
    name = variable.partition("=")[0]
    assert f"make {target} does not take {name}=; it takes " in refused.value.stderr


def test_make_rejects_variables_if_target_takes_none() -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        make_flags("datasets", "DATASET=tiny")
    message = "make datasets does not take DATASET=; it takes no variables."
    assert message in refused.value.stderr


def test_make_passes_variables_to_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "of this machine")
    flags = make_flags("evaluate", "VECTORS=a.txt,b.txt", "DATASET=own.json")
    evaluated = parse_parameters(flags, evaluate_embeddings)
    assert (evaluated["vectors"], evaluated["dataset"]) == (["a.txt", "b.txt"], "own.json")
    flags = make_flags("compare", "DATASET=own.json", "VARIANTS=char", "EPOCHS=2")
    compared = parse_parameters(flags, compare_variants)
    assert [data.dataset for data in compared["data"]] == ["own.json"]
    assert (compared["variants"], compared["training"].epochs) == (["char"], 2)
    flags = make_flags("embeddings", "CORPUS=texts/", "METHOD=glove", "EPOCHS=3", "NAME=mine")
    trained = parse_parameters(flags, train_embeddings)
    assert (trained["embedding"].method, trained["embedding"].epoch_count) == ("glove", 3)
    assert (trained["corpus"].files, trained["name"]) == (["texts/"], "mine")


def test_rejects_training_flags_for_pretrained_vectors(capsys: pytest.CaptureFixture[str]) -> None:
    output = refused(capsys, "--vectors.corpus.files", "texts/", "--vectors.training.epochs", "2")
    assert "--vectors: " in output and "corpus and training would have no effect" in output
    assert "source is glove-6b-50d" in output and "a training method (cbow, " in output
    output = refused(capsys, "--vectors.source", "cbow", "--vectors.start", "none")
    assert "'none' is not valid for start" in output


def test_each_invalid_field_gets_one_error_line(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--training.epochs", "many", "--data.dev-share", "1.5", "--variants", "char,cahr"]
    lines = refused(capsys, *flags).strip().splitlines()
    errors = {line.partition(": ")[0]: line for line in lines}
    assert set(errors) == {"--training.epochs", "--data.dev-share", "--variants.1"}
    assert len(lines) == len(errors)
    assert "integer" in errors["--training.epochs"] and "'many'" in errors["--training.epochs"]
    assert "less than 1" in errors["--data.dev-share"] and "1.5" in errors["--data.dev-share"]
    assert "'baseline', 'char', " in errors["--variants.1"] and "'cahr'" in errors["--variants.1"]
    assert all("--help" in line for line in lines)


@pytest.mark.parametrize(
    "flags",
    [
        ["--training.epoch", "3"],
        ["--epochs", "3"],
        ["--data.train_files", "a.json"],
        ["stray"],
    ],
)
def test_unknown_flags_are_named(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert f"unrecognized arguments: {' '.join(flags)}" in refused(capsys, *flags)


def test_flag_without_value_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--training.epochs: expected one argument" in refused(capsys, "--training.epochs")


@pytest.mark.parametrize("group", GROUPS)
def test_json_groups_reject_unknown_fields(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"--{group}.sede" in refused(capsys, f"--{group}", '{"sede": 1}')


def test_help_describes_every_field(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit) as ended:
        read("--help")
    assert ended.value.code == 0
    output = capsys.readouterr().out
    assert str(retrain.description) in output
    for group, form in {**GROUPS, "training.characters": CharacterParameters}.items():
        for name, field in form.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                continue  # a nested group of fields
            flag = f"--{group}.{name.replace('_', '-')}"
            assert field.description
            entry = rf"^  {flag}\b.*(\n +| ){re.escape(field.description)}"
            # A group's own description is printed above its fields.
            group_entry = rf"^{group}.{name} options:\n  {re.escape(field.description)}"
            assert re.search(f"({entry})|({group_entry})", output, re.M), flag
    assert re.search(r"^  --variants\b", output, re.M)


def test_nested_group_fields_can_be_set() -> None:
    flags = ["--training.characters.kernel-widths", "2,3", "--training.self-attention", "dot"]
    training = read(*flags, "--training.characters.filters", "[9, 8]")["training"]
    assert training.changes() == {
        "self_attention": "dot",
        "characters": {"kernel_widths": [2, 3], "filters": [9, 8]},
    }


def test_environment_variables_do_not_set_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATA__SEED", "DATA.SEED", "TRAINING__EPOCHS", "EPOCHS", "SEED", "DATASET"):
        monkeypatch.setenv(name, "3")
    for group in GROUPS:
        monkeypatch.setenv(group.upper(), '{"seed": 3}')
        monkeypatch.setenv(group, "nonsense")
    monkeypatch.setenv("VARIANTS", '["char"]')
    assert read() == DEFAULTS
