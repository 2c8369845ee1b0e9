"""Questions asked on the command line, answered by a registered model."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from flows.commands.ask import ask, sentence_bounds
from infra.errors import UserError
from infra.settings import CHECKOUT, settings
from tasks.inference.predictor import AnswerRow, Predictor
from tasks.tracking import model_logging, registry
from tests.factories.answers import COMMON, STRANGE
from tests.factories.logged_models import CONTEXT, save_untrained_model
from tests.factories.roots import mark_root
from tests.factories.tracking_store import parent_run, recording_at

QUESTION = "Where does the mill stand?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that may give no answer, with weights so large that it gives some answers."""
    folder = save_untrained_model(tmp_path_factory.mktemp("model"))
    weights = load_file(folder / "weights.safetensors")
    save_file({n: 4 * w for n, w in weights.items()}, folder / "weights.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "allow_no_answer": True}))
    return folder


@pytest.fixture(scope="module", autouse=True)
def champion(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage root in which version 1 of bidaf-tiny is the champion."""
    root = mark_root(tmp_path_factory.mktemp("root"))
    with recording_at(f"sqlite:///{root}/mlflow.db"):
        run = parent_run("flow", "tiny")
        model_uri = model_logging.log_model(run, folder, "bidaf-tiny", step=0)
        registry.set_champion(registry.find_version(model_uri))
    return root


@pytest.fixture(autouse=True)
def root(champion: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BIDAFLOW_ROOT", str(champion))
    assert settings().root == champion
    return champion


@pytest.fixture(scope="module")
def predictor(folder: Path) -> Predictor:
    return Predictor.load(folder)


@pytest.fixture(scope="module")
def answered(predictor: Predictor) -> tuple[str, str, AnswerRow]:
    """A question with a context that has an answer, and the answer."""
    return next(
        (*pair, row)
        for pair in [*COMMON, *STRANGE.values()]
        if (row := predictor.answer([pair])[0])["answer"] and row["answer"] != pair[1]
    )


@pytest.fixture(scope="module")
def unanswered(predictor: Predictor) -> tuple[str, str, AnswerRow]:
    """A question with a context that is likeliest to have no answer."""
    return next(
        (*pair, row)
        for pair in [*COMMON, *STRANGE.values()]
        if not (row := predictor.answer([pair])[0])["answer"]
    )


def percent(probability: float) -> str:
    return f"{100 * probability:.1f} %"


def test_answer_is_highlighted_in_its_sentence(
    answered: tuple[str, str, AnswerRow],
    predictor: Predictor,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    question, context, _ = answered
    # The text around it is in other paragraphs, so the sentence is the context itself.
    text = f"First.\n\n{context}\n\nLast."
    (row,) = predictor.answer([(question, text)])
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    ask(question, context=text)
    first, last = capsys.readouterr().out.splitlines()
    green = "\x1b[1;32m{}\x1b[0m"
    begin, end = sentence_bounds(text, row["start"], row["end"])
    before, after = text[begin : row["start"]], text[row["end"] : end].rstrip()
    assert first.rstrip().endswith(before + green.format(row["answer"]) + after)
    assert first.count(green.format(row["answer"])) == 2
    assert "Answered by bidaf-tiny version 1 (champion)" in last


def test_probability_and_no_answer_are_printed(
    answered: tuple[str, str, AnswerRow],
    unanswered: tuple[str, str, AnswerRow],
    predictor: Predictor,
    capsys: pytest.CaptureFixture[str],
) -> None:
    question, context, _ = answered
    ask(question, context=context)
    (row,) = predictor.top_answers(question, context, 1)
    printed = capsys.readouterr().out
    assert printed.split("%")[0] + "%" == percent(row["probability"])
    question, context, row = unanswered
    ask(question, context=context)
    line = capsys.readouterr().out.splitlines()[0]
    assert line.split("  ")[:2] == [percent(row["no_answer_probability"]), "No answer"]


def test_runners_up_are_distinct_and_descending(
    predictor: Predictor, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(QUESTION, context=CONTEXT, top=200)
    *lines, _ = capsys.readouterr().out.splitlines()
    rows = predictor.top_answers(QUESTION, CONTEXT, 200)
    assert len(lines) == len(rows) > 50
    shown = [re.split(r" {2,}", line.strip())[1] for line in lines]
    assert shown == [row["answer"] or "No answer" for row in rows]
    assert shown.count("No answer") == 1
    printed = [float(line.replace("< 0.1", "0").split("%")[0]) for line in lines]
    assert printed == sorted(printed, reverse=True)
    assert len({(row["start"], row["end"]) for row in rows}) == len(rows)


def test_threshold_decides_on_request(
    folder: Path,
    answered: tuple[str, str, AnswerRow],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    question, context, row = answered
    with pytest.raises(UserError, match="this model has no threshold"):
        ask(question, context=context, no_answer="threshold")
    copy = tmp_path / "model"
    shutil.copytree(folder, copy)
    config = json.loads((folder / "config.json").read_text())
    points = [[-1e6, 0, 100], [1e6, 60, 0]]
    config = {**config, "threshold": -1e6, "operating_points": points}
    (copy / "config.json").write_text(json.dumps(config))
    ask(question, context=context, model=str(copy))
    assert row["answer"] in capsys.readouterr().out.splitlines()[0]
    ask(question, context=context, model=str(copy), no_answer="threshold")
    assert "No answer" in capsys.readouterr().out.splitlines()[0]
    options = {"context": context, "model": str(copy), "expected_no_answer": 0.1}
    ask(question, no_answer="threshold", **options)  # type: ignore[arg-type]
    assert row["answer"] in capsys.readouterr().out.splitlines()[0]


def standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_context_is_text_file_or_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = "The mühle stands on the hill."
    ask(QUESTION, context=context)
    expected = capsys.readouterr().out
    assert "mühle" in expected
    file = tmp_path / "context.txt"
    file.write_text(context, encoding="utf-8-sig")
    ask(QUESTION, context=str(file))
    assert capsys.readouterr().out == expected
    standard_input(monkeypatch, context.encode())
    ask(QUESTION)
    assert capsys.readouterr().out == expected


def test_terminal_as_standard_input_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    _, terminal = os.openpty()
    with open(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(UserError, match="--context TEXT or --context FILE, or standard input"):
            ask(QUESTION)


@pytest.mark.parametrize(
    "model", ["models:/bidaf-tiny/1", "models:/bidaf-tiny@champion", "tiny@champion"]
)
def test_version_is_chosen_by_number_or_alias(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(QUESTION, context=CONTEXT, dataset="another", model=model)
    assert "Answered by bidaf-tiny version 1 (champion)" in capsys.readouterr().out


def test_model_directory_needs_no_registry(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BIDAFLOW_ROOT", str(tmp_path / "none"))
    ask(QUESTION, context=CONTEXT, model=str(folder))
    assert f"Answered by the model directory {folder}" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dataset": "squad-v1.1"},
            r"squad-v1.1 has no champion yet\. Those that have one: tiny \(--dataset\)\. Train one",
        ),
        ({"model": "models:/bidaf-tiny/9"}, "bidaf-tiny has no version 9 in MLflow"),
        ({"model": "models:/bidaf-other/1"}, "bidaf-other has no version 1 in MLflow"),
        ({"model": "models:/bidaf-tiny@best"}, "No version of bidaf-tiny has the alias 'best'"),
        ({"model": "models:/bidaf-tiny"}, "models:/bidaf-tiny is not a model URI"),
        ({"model": "bidaf-tiny"}, "bidaf-tiny is not a model URI"),
        ({"context": " \n"}, "The context is empty"),
        ({"context": str(CHECKOUT)}, "Can't read the context .*: Is a directory"),
        (
            {"context": "tikcet.txt"},
            r"No such file: tikcet\.txt\. Check the path, or pass the text",
        ),
        ({"context": "texts/ticket"}, "No such file: texts/ticket"),
        ({"context": "数据/五月.txt"}, "No such file: 数据/五月"),
    ],
)
def test_errors_name_the_option(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ask(QUESTION, **{"context": CONTEXT, **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "context", ["hill", "It.", "磨坊和/或客栈高3.5米。", "See mills.txt or a/b"]
)
def test_short_texts_are_not_paths(context: str, capsys: pytest.CaptureFixture[str]) -> None:
    ask(QUESTION, context=context)
    assert "Answered by" in capsys.readouterr().out


def test_unreadable_contexts_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "context.txt"
    file.write_bytes(b"")
    with pytest.raises(UserError, match=r"context\.txt is empty"):
        ask(QUESTION, context=str(file))
    file.write_bytes("Mühle".encode("latin-1"))
    with pytest.raises(UserError, match=r"context\.txt is not UTF-8 text"):
        ask(QUESTION, context=str(file))
    standard_input(monkeypatch, b"")
    with pytest.raises(UserError, match="Standard input is empty"):
        ask(QUESTION)
    argument = "Mühle".encode("latin-1").decode("utf-8", "surrogateescape")  # as Python reads it
    with pytest.raises(UserError, match="The context is not UTF-8 text"):
        ask(QUESTION, context=argument)
    for question, problem in ((argument, "not UTF-8 text"), (" ", "empty")):
        with pytest.raises(UserError, match=f"The question is {problem}"):
            ask(question, context=CONTEXT)


def test_incompatible_model_is_rejected(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "model"
    shutil.copytree(folder, copy)
    (copy / "config.json").write_text(json.dumps({"allow_no_answer": True}))
    with pytest.raises(UserError, match="is incompatible with this version of the code"):
        ask(QUESTION, context=CONTEXT, model=str(copy))
    shutil.copyfile(folder / "config.json", copy / "config.json")
    (copy / "weights.safetensors").write_bytes(b"torn")
    with pytest.raises(UserError, match="is incompatible with this version of the code"):
        ask(QUESTION, context=CONTEXT, model=str(copy))


@pytest.mark.parametrize(
    ("text", "answer", "sentence"),
    [
        ("One mill. Two inns! Three?", "Two", "Two inns!"),
        ("One mill. Two inns! Three?", "mill. Two", "One mill. Two inns!"),
        ('He said "Stop." Then he left.', "left", "Then he left."),
        ("It was J. Doe who left. He ran.", "Doe", "It was J. Doe who left."),
        ("It cost 3.5 fl. oz. of oil. No more.", "oil", "It cost 3.5 fl. oz. of oil."),
        ("A title\n\nThe mill stands\non the hill", "hill", "The mill stands\non the hill"),
        ("磨坊在山上。客栈在河边。", "河边", "客栈在河边。"),
    ],
)
def test_sentence_bounds(text: str, answer: str, sentence: str) -> None:
    start = text.index(answer)
    first, last = sentence_bounds(text, start, start + len(answer))
    assert text[first:last].rstrip() == sentence


@pytest.mark.heavy
def test_control_characters_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    ask(QUESTION, context="\x1b[31mThe mill\x07 stands\0 by the river.", top=3)
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", capsys.readouterr().out)


def test_command_loads_neither_prefect_nor_ray(champion: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "flows", "ask", QUESTION]
    done = subprocess.run(
        [*command, "--context", CONTEXT, "--top", "3"],
        cwd=CHECKOUT,
        env={**os.environ, "BIDAFLOW_ROOT": str(champion)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "Answered by bidaf-tiny version 1 (champion)"
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {"torch", "mlflow"} <= imported
    assert not imported & {"prefect", "ray", "gensim", "numba", "matplotlib"}
