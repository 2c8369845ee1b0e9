"""Answer a question about a text with a registered model."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.table import Column, Table
from rich.text import Text

from flows.commands.terminal import open_console
from infra.errors import UserError
from infra.files import user_path
from tasks.datasets.paths import dataset_name
from tasks.inference.no_answer import NoAnswer
from tasks.inference.score_model import load_predictor
from tasks.text.control_characters import without_control_characters
from tasks.text.tokenizer import tokenize
from tasks.tracking import registry
from tasks.tracking.registry import find_model_files

if TYPE_CHECKING:
    from tasks.inference.predictor import AnswerRow, Predictor

# Sentences end at their last mark, which may be followed by quotes or brackets, or at a blank line.
# The dot of an initial, as in "J. Doe", or one before a small letter ends no sentence.
SENTENCE_END = re.compile(
    r"""(?<!\b[A-Z])[.!?…]["'”’»)\]]*\s+(?![a-z]) | [。！？][」』”’）]* | \n\s*\n""", re.VERBOSE
)

# A context like this is a mistyped path: without white space, and with a file extension or, in
# ASCII, a slash. Texts in languages without spaces may have slashes and numbers such as 3.5.
PATH = re.compile(r"\S+\.[A-Za-z][A-Za-z0-9]{0,7}|[!-~]*/[!-~]*")


def ask(
    question: Annotated[str, Parameter(help="Question to answer.")],
    /,
    *,
    context: Annotated[
        str | None,
        Parameter(
            help="Text to answer from, or a UTF-8 file with it. Default: standard input.",
            metavar="TEXT|FILE",
        ),
    ] = None,
    dataset: Annotated[
        str, Parameter(help="Dataset whose champion answers: a name or path, as for retrain.")
    ] = "tiny",
    model: Annotated[
        str | None,
        Parameter(
            help="Another model instead: <dataset>@champion, models:/<name>/<version>, "
            "models:/<name>@<alias>, or a model directory."
        ),
    ] = None,
    top: Annotated[
        int, Parameter(help="Number of likeliest answers to show.", validator=Number(gte=1))
    ] = 1,
    no_answer: Annotated[
        NoAnswer,
        Parameter(
            help='When "No answer" comes first: argmax: if it is more probable than every other '
            "answer; threshold: as the model's no-answer threshold says, which was chosen on "
            "validation (see --training.expected-no-answer)."
        ),
    ] = "argmax",
    expected_no_answer: Annotated[
        float | None,
        Parameter(
            help="With --no-answer threshold: the share of unanswerable questions among yours, "
            "above 0 and below 1. Default: the one that the training expected."
        ),
    ] = None,
) -> None:
    """Ask the champion a question about a text.

    Prints the answer, its probability and its sentence, and the version of the model.
    """
    if not tokenize(_decode("The question", os.fsencode(question))):
        raise UserError("The question is empty. Provide some text.")
    text = _read_context(context)
    predictor, name = _load_model(model, dataset, (no_answer, expected_no_answer))
    answers = predictor.top_answers(question, text, top)
    console = open_console(highlight=False)
    console.print(_answer_table(text, answers))
    console.print(Text(f"Answered by {name}", "dim"), soft_wrap=True)


def _read_context(context: str | None) -> str:
    """The text given, of the file given, or of standard input if `context` is None.

    Raises:
        UserError: there is no text, or the file does not exist or can't be read.
    """
    if context is None:
        if sys.stdin.isatty():
            raise UserError(
                "No context to answer from. Use --context TEXT or --context FILE, or standard "
                "input: bidaflow ask QUESTION < FILE"
            )
        source, text = "Standard input", _decode("Standard input", sys.stdin.buffer.read())
    elif os.path.exists(context):
        try:
            source, text = context, _decode(context, Path(context).read_bytes())
        except OSError as error:
            raise UserError(f"Can't read the context {context}: {error.strerror}.") from error
    elif PATH.fullmatch(context):
        raise UserError(f"No such file: {context}. Check the path, or pass the text itself.")
    else:
        source, text = "The context", _decode("The context", os.fsencode(context))
    if not tokenize(text):
        raise UserError(f"{source} is empty. Provide some text to answer from.")
    return text


def _decode(source: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{source} is not UTF-8 text ({error}). Convert it to UTF-8.") from error


def _load_model(
    model: str | None, dataset: str, rule: tuple[NoAnswer, float | None]
) -> tuple["Predictor", str]:
    """The model to ask, ready to answer, and its name for people.

    `rule` has the arguments of `Predictor.load` that say when there is no answer.

    Raises:
        UserError: there is no such model, this version of the code can't load it, or it has no
            threshold for the rule.
    """
    if model is not None and user_path(model).is_dir():
        find_model_files(model)
        return load_predictor(user_path(model), model, *rule), f"the model directory {model}"
    version = registry.chosen_version(model, dataset_name(dataset))
    aliases = f" ({', '.join(version.aliases)})" if version.aliases else ""
    name = f"{version.name} version {version.version}"
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "model"
        registry.download(version.model_id, folder)
        return load_predictor(folder, name, *rule), name + aliases


def _answer_table(context: str, answers: Sequence["AnswerRow"]) -> Table:
    """A row per answer: its probability, its text, and its sentence of the context."""
    table = Table.grid(Column(justify="right", no_wrap=True), padding=(0, 2))
    for answer in answers:
        percent, words = 100 * answer["probability"], _one_line(answer["answer"])
        table.add_row(
            f"{percent:.1f} %" if percent >= 0.1 else "< 0.1 %",
            Text(words, "bold green") if words else Text("No answer", "bold yellow"),
            _sentence(context, answer),
        )
    return table


def _sentence(context: str, answer: "AnswerRow") -> Text:
    """The sentence of the answer, with the answer highlighted; empty for no answer."""
    start, end = answer["start"], answer["end"]
    if start < 0:
        return Text()
    first, last = sentence_bounds(context, start, end)
    return Text.assemble(
        _one_line(context[first:start]).lstrip(),
        (_one_line(context[start:end]), "bold green"),
        _one_line(context[end:last]).rstrip(),
    )


def sentence_bounds(text: str, start: int, end: int) -> tuple[int, int]:
    """Begin and end of the sentence, or sentences, of the characters `start` to `end`."""
    borders = [0, *(match.end() for match in SENTENCE_END.finditer(text)), len(text)]
    return max(b for b in borders if b <= start), min(b for b in borders if b >= end)


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", without_control_characters(text))
