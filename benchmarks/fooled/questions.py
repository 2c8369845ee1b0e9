"""Which unanswerable questions a model answers: draws some to read, and counts their categories.

    python -m benchmarks.fooled.questions draw ANSWERS.parquet DEV.json OUT.txt [--count 100]
        [--expected-no-answer 0.5]

ANSWERS.parquet is a training's file of `benchmarks.published_table`, with that of validation beside
it, which chooses the threshold. DEV.json is the file with the questions. OUT.txt gets the id,
question, context, the model's answer and the plausible answers of unanswerable questions that it
answers, drawn by --seed. It contains texts of the dataset, so it must be outside the repository.

    python -m benchmarks.fooled.questions count CATEGORIES.tsv OUT_FOLDER [--note …]

CATEGORIES.tsv is made by hand: a question's id and its category in each line, separated by a tab,
for example "entity swap", "antonym", "negation", "number or date" or "other". A third column, for
`benchmarks.fooled.attention`, may have the positions of the tokens that make the question
unanswerable, such as "4,5"; 0 is the first token. OUT_FOLDER gets fooled.json, with the ids of each
category, and fooled.md.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from benchmarks.common.arguments import existing_file
from benchmarks.common.tables import write_table
from benchmarks.published_table import threshold_of
from benchmarks.trainings.validation import add_expected_no_answer
from infra.atomic_files import write_atomically
from infra.settings import CHECKOUT
from tasks.data.ingested import hash_uniform

PROGRAM = "benchmarks.fooled.questions"


def unanswerable(dev_file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the context and the entry of each unanswerable question of a SQuAD 2.0 file."""
    for article in json.loads(dev_file.read_text(encoding="utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            for entry in paragraph["qas"]:
                if entry.get("is_impossible"):
                    yield paragraph["context"], entry


def answered_spans(answers: Path, expected_no_answer: float) -> dict[str, tuple[int, int]]:
    """The spans that the model answers with instead of nothing, by the ids of the questions."""
    threshold = threshold_of(answers, expected_no_answer)
    return {
        row["id"]: (row["span_start_char"], row["span_end_char"])
        for row in pq.read_table(answers).to_pylist()
        if row["margin"] < threshold
    }


def draw(
    answers: Path, dev_file: Path, count: int, seed: int, expected_no_answer: float
) -> list[str]:
    """Texts to read about questions that fool the model, in the order of the draw.

    The program ends if there are none.
    """
    spans = answered_spans(answers, expected_no_answer)
    fooled = [(context, q) for context, q in unanswerable(dev_file) if q["id"] in spans]
    if not fooled:
        sys.exit(
            f"{answers} answers none of the unanswerable questions of {dev_file}. Is it about "
            "another file?"
        )
    fooled.sort(key=lambda item: hash_uniform("fooled", seed, item[1]["id"]))
    return [_text(context, entry, spans[entry["id"]]) for context, entry in fooled[:count]]


def _text(context: str, entry: dict[str, Any], span: tuple[int, int]) -> str:
    start, end = span
    plausible = dict.fromkeys(answer["text"] for answer in entry.get("plausible_answers", []))
    return (
        f"id: {entry['id']}\nquestion: {entry['question']}\n"
        f"model's answer: {context[start:end]}\nplausible: {' | '.join(plausible) or '–'}\n"
        f"context: {context[:start]}[[{context[start:end]}]]{context[end:]}\n"
    )


class ReadQuestion(NamedTuple):
    """A question that somebody read, and the positions of the tokens that make it unanswerable."""

    id: str
    category: str
    changed: tuple[int, ...]


def read_categories(file: Path) -> list[ReadQuestion]:
    """The questions of a table made by hand. The program ends if a line is invalid."""
    questions: dict[str, ReadQuestion] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        id, category, positions, *rest = map(str.strip, [*line.split("\t"), "", ""])
        changed = [position.strip() for position in positions.split(",")] if positions else []
        if not id or not category or any(rest) or not all(map(str.isdecimal, changed)):
            sys.exit(
                f"{file}, line {number}: expected an id, a category and perhaps positions such as "
                "4,5, separated by tabs."
            )
        if id in questions:
            sys.exit(f"{file}, line {number}: {id} occurs twice. Keep one of its lines.")
        questions[id] = ReadQuestion(id, category, tuple(map(int, changed)))
    if not questions:
        sys.exit(f"{file} is empty. Write an id, a tab and a category in each line.")
    return list(questions.values())


def count(file: Path, out: Path, note: str) -> None:
    """Write how many questions each category has."""
    questions = read_categories(file)
    categories: dict[str, list[str]] = defaultdict(list)
    for question in questions:
        categories[question.category].append(question.id)
    ids = dict(sorted(categories.items(), key=lambda item: (-len(item[1]), item[0])))
    rows = [
        {
            "category": name,
            "questions": str(len(own)),
            "share": f"{100 * len(own) / len(questions):.0f} %",
        }
        for name, own in ids.items()
    ]
    write_table(out, "fooled", PROGRAM, rows, note=note, ids=ids)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    modes = parser.add_subparsers(dest="mode", required=True)
    drawing = modes.add_parser("draw", help="write questions to read")
    drawing.add_argument("answers", type=existing_file, metavar="ANSWERS.parquet")
    drawing.add_argument("dev", type=existing_file, metavar="DEV.json")
    drawing.add_argument("out", type=Path, metavar="OUT.txt")
    drawing.add_argument("--count", type=int, default=100)
    drawing.add_argument("--seed", type=int, default=7)
    add_expected_no_answer(drawing)
    counting = modes.add_parser("count", help="count the categories of a table made by hand")
    counting.add_argument("categories", type=existing_file, metavar="CATEGORIES.tsv")
    counting.add_argument("out", type=Path, metavar="OUT_FOLDER")
    counting.add_argument("--note", default="", help="note to record with the results")
    arguments = parser.parse_args()
    if arguments.mode == "count":
        count(arguments.categories, arguments.out, arguments.note)
        return
    if arguments.out.resolve().is_relative_to(CHECKOUT):
        drawing.error(f"{arguments.out} is in the repository; write the texts elsewhere")
    texts = draw(
        arguments.answers,
        arguments.dev,
        arguments.count,
        arguments.seed,
        arguments.expected_no_answer,
    )
    numbered = (f"{n} of {len(texts)}\n{text}" for n, text in enumerate(texts, 1))
    write_atomically(arguments.out, "\n".join(numbered))
    print(f"{arguments.out} has {len(texts)} questions.")


if __name__ == "__main__":
    main()
