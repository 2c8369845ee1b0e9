"""The options of commands made from flows, and the error messages for invalid ones."""

import re
from collections.abc import Iterator
from inspect import signature
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cyclopts import CycloptsError
from prefect.utilities.callables import parameter_schema
from pydantic import BaseModel
from rich.console import Console

from flows.__main__ import build_app
from flows.commands.flow_command import groups_of
from flows.common.command_line import with_options
from flows.common.parameters import (
    DataParameters,
    MixedSource,
    TrainingParameters,
    VectorParameters,
    VocabularyParameters,
)
from flows.options import explained
from flows.retrain import retrain
from infra.cluster.allotment import Resources
from tasks.evaluation.promotion_rule import PromotionRule

APP = build_app()

GROUPS: dict[str, type[BaseModel]] = {
    "data": DataParameters,
    "vectors": VectorParameters,
    "vocabulary": VocabularyParameters,
    "training": TrainingParameters,
    "resources": Resources,
    "promotion": PromotionRule,
}
DEFAULTS = {name: group() for name, group in GROUPS.items()} | {"variants": ["baseline", "char"]}


def read(*words: str, command: str = "retrain") -> dict[str, Any]:
    """The flow's parameters, parsed from these words after the command's name."""
    typed = [*command.split(), *words]
    called, bound, _ = APP.parse_args(typed, exit_on_error=False, print_error=False)
    defaults = {name: p.default for name, p in signature(called).parameters.items()}
    return defaults | bound.arguments


def refused(*words: str, command: str = "retrain") -> str:
    """The error that these words cause."""
    with pytest.raises(CycloptsError) as error:
        read(*words, command=command)
    return explained(error.value)


def test_no_flags_give_the_flow_defaults() -> None:
    assert read() == DEFAULTS


def test_each_flag_type_sets_its_field() -> None:
    flags = {
        "--data.dataset": "my questions",
        "--data.mix": '[{"files": ["squad-v1.1"], "weight": 0.5}]',
        "--data.train-files": "a.json,b c.json",
        "--data.dev-share": "0.25",
        "--variants": "char",
        "--training.batch-size": "16",
        "--training.optimizer": "adam",
        "--training.learning-rate": "1e-3",
    }
    words = [part for flag in flags.items() for part in flag]
    parsed = read(*words, "--vocabulary.no-lower-case", "--resources.no-gpu")
    assert parsed == {
        "data": DataParameters(
            dataset="my questions",
            mix=[MixedSource(files=["squad-v1.1"], weight=0.5)],
            train_files=["a.json", "b c.json"],
            dev_share=0.25,
        ),
        "variants": ["char"],
        "vectors": VectorParameters(),
        "vocabulary": VocabularyParameters(lower_case=False),
        "training": TrainingParameters(batch_size=16, optimizer="adam", learning_rate=1e-3),
        "resources": Resources(gpu=False),
        "promotion": PromotionRule(),
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


@pytest.mark.parametrize(
    ("words", "files"),
    [
        (["--data.dev-files", '["a, b", "c"]'], ["a, b", "c"]),
        (["--data.dev-files", '["a, b"]', "--data.dev-files", "c"], ["a, b", "c"]),
        (["--data.dev-files", "a[b].json"], ["a[b].json"]),
        (["--data.dev-files", "[]"], []),
        (["--data.dev-files", ""], []),
    ],
)
def test_json_keeps_commas_in_values(words: list[str], files: list[str]) -> None:
    assert read(*words)["data"].dev_files == files


@pytest.mark.parametrize(
    "words",
    [
        ['[{"files": ["a.json"]}, {"files": ["b,c.json"], "weight": 2}]'],
        ['{"files": ["a.json"]}', '{"files": ["b,c.json"], "weight": 2}'],
    ],
)
def test_groups_in_lists_are_json(words: list[str]) -> None:
    mix = read(*(part for word in words for part in ("--data.mix", word)))["data"].mix
    assert mix == [MixedSource(files=["a.json"]), MixedSource(files=["b,c.json"], weight=2)]


@pytest.mark.parametrize(
    ("words", "gpu"),
    [
        ([], None),
        (["--resources.gpu"], True),
        (["--resources.no-gpu"], False),
        (["--resources.gpu=true"], True),
        (["--resources.gpu=false"], False),
    ],
)
def test_booleans_are_flags(words: list[str], gpu: bool | None) -> None:
    assert read(*words)["resources"] == Resources(gpu=gpu)


def test_lists_of_groups_accept_plain_names() -> None:
    words = ["--data", "own.json,tiny", "--vectors", "my set.txt", "--vectors", "glove-6b-50d"]
    parsed = read(*words, "--seeds", "0,1", command="compare")
    assert [data.dataset for data in parsed["data"]] == ["own.json", "tiny"]
    assert [vectors.source for vectors in parsed["vectors"]] == ["my set.txt", "glove-6b-50d"]
    assert parsed["seeds"] == [0, 1]
    words = ["--vectors", "a.txt,b.txt", "--dataset", "own.json", "--fetch"]
    parsed = read(*words, command="embeddings evaluate")
    assert (parsed["vectors"], parsed["dataset"]) == (["a.txt", "b.txt"], "own.json")
    assert parsed["fetch"] is True


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--dataset", "--data.dataset"),
        ("--dataset=own.json", "--data.dataset"),
        ("--batch_size", "--training.batch-size"),
        ("--seed", "--data.seed or --training.seed"),
    ],
)
def test_option_without_its_group_is_recognised(typed: str, meant: str) -> None:
    expected = f"Unknown option: {typed.partition('=')[0]}. Did you mean {meant}?"
    assert refused(*[typed, "7"][: 1 if "=" in typed else 2]) == expected


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--training.seed", "18446744073709551616"], "at most 4294967295."),
        (["--data.dataset", "\udcff"], "text in UTF-8."),
    ],
)
def test_values_that_servers_can_not_store(words: list[str], error: str) -> None:
    assert refused(*words).endswith(f": {error}")


def test_group_is_no_option() -> None:
    assert refused("--vectors", "a") == "--vectors a: a group of options, which --help lists."


@pytest.mark.parametrize(
    ("message", "typed"),
    [
        ("Set data.dev_files, or data.dataset.", "Set --data.dev-files, or --data.dataset."),
        ("Raise --data.max-rejected of data.json.", "Raise --data.max-rejected of data.json."),
        ("my.data.seed and data.seeds", "my.data.seed and data.seeds"),
    ],
)
def test_messages_name_options_as_they_are_typed(message: str, typed: str) -> None:
    assert with_options(message, groups_of(retrain)) == typed


def test_rejects_a_corpus_for_pretrained_vectors() -> None:
    message = refused("--vectors.corpus-files", "texts/")
    assert message.startswith("--vectors: ") and "the corpus would have no effect" in message
    assert "source is glove-6b-50d" in message and "a training method (cbow, " in message


def test_trained_sets_are_known_by_name(root: Path) -> None:
    folder = root / "embeddings" / "support"
    words = ["--vectors.source", "glove-6b-50d+support"]
    assert "support: unknown vectors 'support'; expected" in refused(*words)
    folder.mkdir(parents=True)
    (folder / "vectors.parquet").touch()
    assert read(*words)["vectors"].source == "glove-6b-50d+support"
    assert read("--vectors.source", str(folder))["vectors"].source == str(folder)


@pytest.mark.parametrize("path", ["~nosuchuser/a.txt", "x" * 300])
def test_unreadable_vectors_are_one_line(path: str, root: Path) -> None:
    command = {"command": "embeddings evaluate"}
    lines = [
        refused("--vectors.source", path),
        refused("--vectors.source", f"glove-6b-50d+{path}"),
        refused("--vectors", path, **command),
    ]
    for line in lines:
        assert re.match(r"--vectors\S* \S+: \S+ can't be read \(.*\); .* permissions\.$", line)
        assert "\n" not in line


def test_empty_vectors_are_not_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bilm.safetensors").touch()
    monkeypatch.chdir(tmp_path)
    line = refused("--vectors", '[""]', command="embeddings evaluate")
    assert line == "--vectors '': at least 1 character."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--vectors.corpus-dataset", "{}"], "--vectors: the corpus would have no effect"),
        (["--vectors.source", "{}"], "--vectors.source https://***@host/a: unknown vectors"),
        (
            ["--data.mix", '[{{"files": "{}"}}]'],
            "--data.mix item 1, files https://***@host/a: a list.",
        ),
        (["--data.mix", '[{{"files": ["{}"]'], "Invalid value for --data.mix: invalid JSON"),
    ],
)
def test_errors_mask_secrets_and_omit_groups(words: list[str], message: str) -> None:
    line = refused(*(word.format("https://me:hidden@host/a") for word in words))
    assert line.startswith(message)
    assert "hidden" not in line and "{'" not in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--training.epoch", "3"], "--training.epoch. Did you mean --training.epochs?"),
        (["--data.datset", "x"], "--data.datset. Did you mean --data.dataset?"),
        (["--no-vocabulary.lower-case"], "Did you mean --vocabulary.lower-case?"),
        (["--epochs", "3"], "--epochs"),
        (["--data", '{"sede": 1}'], '--data: Unknown field "sede" in JSON'),
        (["stray"], "Unexpected argument: stray."),
        (["--resources.gpu", "false"], "Unexpected argument: false."),
        (["--training.epochs"], "--training.epochs requires an argument"),
        (
            ["--training.optimizer", "sgd"],
            "optimizer sgd: 'adadelta' or 'adam'.",
        ),
        (["--training.optimizer", "adm"], "Did you mean 'adam'?"),
        (["--data.mix", '{"files": [}'], "Invalid value for --data.mix: invalid JSON ("),
        (["--data.mix", '{"files": ["a"], "wieght": 2}'], "mix item 1, wieght 2: unknown field."),
        (["--variants", ","], "--variants ,: unknown variant"),
        (["--variants", "cahr"], "--variants cahr: unknown variant; expected one of: baseline, "),
        (["--resources.gpu=maybe"], '--resources.gpu: unable to convert "maybe" into bool'),
    ],
)
def test_invalid_words_are_named(words: list[str], message: str) -> None:
    assert message in refused(*words)


@pytest.mark.parametrize(
    ("command", "words", "option"),
    [("check", ["own.json"], "data"), ("evaluate", ["own.json"], "dataset")],
)
def test_only_documented_arguments_are_positional(
    command: str, words: list[str], option: str
) -> None:
    parsed = read(*words, command=command)
    assert parsed[option] in ("own.json", DataParameters(dataset="own.json"))
    assert refused("", command=command).endswith("'': at least 1 character.")
    assert refused(*words, "0.2", command=command).startswith("Unexpected argument: 0.2.")


def test_environment_variables_do_not_set_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATA__SEED", "DATA.SEED", "TRAINING__EPOCHS", "EPOCHS", "SEED", "DATASET"):
        monkeypatch.setenv(name, "3")
    for group in GROUPS:
        monkeypatch.setenv(group.upper(), '{"seed": 3}')
        monkeypatch.setenv(group, "nonsense")
    monkeypatch.setenv("VARIANTS", '["char"]')
    assert read() == DEFAULTS


def fields_of_form(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All fields of Prefect's form as options, and the groups of fields, with their schemas."""
    definitions = schema["definitions"]
    for name, field in schema["properties"].items():
        flag = f"{path}.{name.replace('_', '-')}"
        group = definitions[field["$ref"].rpartition("/")[2]] if "$ref" in field else {}
        if "properties" in group:
            yield flag, {"group": True, "description": group["description"], **field}
            yield from fields_of_form({**group, "definitions": definitions}, flag)
        else:
            yield f"--{flag[1:]}", field


def form() -> dict[str, dict[str, Any]]:
    return dict(fields_of_form(parameter_schema(retrain).model_dump()))


def help_lines() -> list[str]:
    """`bidaflow retrain --help` with one line per option."""
    console = Console(width=1000, file=StringIO())
    APP.help_print(["retrain"], console=console)
    assert isinstance(console.file, StringIO)
    return [" ".join(line.strip("│ ").split()) for line in console.file.getvalue().splitlines()]


def test_form_and_help_list_the_same_fields() -> None:
    options = {line.split()[0] for line in help_lines() if line.startswith("--")}
    assert options == {flag for flag, field in form().items() if "group" not in field}
    assert len(options) == 41


def test_form_and_help_have_the_same_words() -> None:
    lines = help_lines()
    for flag, field in form().items():
        description = " ".join(field["description"].split())
        assert description, flag
        if "group" in field:
            # A group's description is printed above its fields. Paragraphs have lines of their own.
            assert description in " ".join(line for line in lines if line), flag
        else:
            (line,) = (line for line in lines if line.split()[:1] == [flag])
            assert f" {description}" in line


def test_help_shows_bounds_choices_and_defaults() -> None:
    lines = {line.split()[0]: line for line in help_lines() if line.startswith("--")}
    for flag, field in form().items():
        kind = field.get("anyOf", [field])[0]
        kind = kind.get("items", kind)
        keys = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
        line = lines.get(flag, "")
        for value in [*(str(kind[key]) for key in keys if key in kind), *kind.get("enum", [])]:
            assert re.search(rf"[ ,≥>≤<[]{re.escape(value)}[] ,.]", line), (flag, value)
    assert lines["--training.dropout"].endswith("[0 to 0.99]")
    assert lines["--data.dev-share"].endswith("[> 0, < 1] [default: 0.1]")
    assert lines["--variants"].endswith("a preset of your own. [default: baseline,char]")
    assert lines["--data.overlap"].endswith("[choices: refuse, leave out]")
