"""CPU time per question and peak memory of each step, for data several times SQuAD's size.

python -m benchmarks.scale --data train.json dev.json --times 1 5 20

The files' articles are repeated in one file; each copy has its own ids, titles and texts. Every
step runs in a fresh process, whose peak resident memory is the kernel's VmHWM.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.common.machine import machine, peak_mib, today
from tasks.data.ingest import ingest_file
from tasks.data.ingested import Portion
from tasks.data.readers import read_articles
from tasks.data.schema import Article
from tasks.data.splits import Shares, write_split
from tasks.embeddings.formats.select import select_vectors
from tasks.embeddings.formats.source import PACKAGED
from tasks.text.build_vocabulary import VocabularyConfig, build_vocabulary
from tasks.text.encode import encode_split
from tasks.text.split_texts import wanted_words

RESULT = Path(__file__).parent / "results" / "scale.json"
HELD_OUT = Shares(validation=0.1, dev=0.1)
PARAMETERS = VocabularyConfig()


def ingest(root: Path) -> None:
    """Read the file, and write the tables of the ingested split."""
    ingest_file(root / "ingest", root / "data.json")


def split(root: Path) -> None:
    """Hold articles out, and write the rest for training."""
    write_split(root / "split", [Portion(root / "ingest", "data.json")], "train", HELD_OUT)


def vectors(root: Path) -> None:
    """Select the vectors of the split's words."""
    wanted = wanted_words([root / "ingest"], PARAMETERS.lower_case)
    select_vectors(root / "vectors", PACKAGED, wanted, PARAMETERS.pretrained_words)


def vocabulary(root: Path) -> None:
    """Count the words, characters and word types."""
    build_vocabulary(root / "vocabulary", root / "ingest", [], root / "vectors", PARAMETERS)


def encode(root: Path) -> None:
    """Write the split as type ids."""
    encode_split(root / "encode", root / "ingest", root / "vocabulary")


STEPS: dict[str, Callable[[Path], None]] = {
    step.__name__: step for step in (ingest, split, vectors, vocabulary, encode)
}


def write_repeated(files: Sequence[Path], times: int, target: Path) -> int:
    """Write the files' articles `times` times, one article at a time; return the number of
    questions."""
    questions = 0
    with target.open("w", encoding="utf-8") as out:
        out.write('{"version": "1.1", "data": [')
        for number, article in enumerate(_repeated(files, times)):
            out.write(",\n" * bool(number) + article.model_dump_json())
            questions += sum(len(paragraph.qas) for paragraph in article.paragraphs)
        out.write("]}")
    return questions


def _repeated(files: Sequence[Path], times: int) -> Iterator[Article]:
    for copy in range(times):
        for file in files:
            for article in read_articles(file):
                yield _numbered_copy(article, copy)


def _numbered_copy(article: Article, copy: int) -> Article:
    """The article as copy number `copy`, with words after each text that no other copy has."""
    plain: dict[str, Any] = article.model_dump()
    plain["title"] += f" {copy}"
    for paragraph in plain["paragraphs"]:
        paragraph["context"] += f" This is copy{copy}."
        for question in paragraph["qas"]:
            question["id"] += f"-{copy}"
            question["question"] += f" (copy{copy})"
    return Article.model_validate(plain)


def measure_step(step: str, root: Path) -> dict[str, float]:
    """Seconds and peak memory of a step in its own process, not counting the process's start."""
    (root / step).mkdir()
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(step, root, sender))
    process.start()
    sender.close()
    result: dict[str, float] = receiver.recv()
    process.join()
    return result


def _run(step: str, root: Path, sender: Any) -> None:
    began, used = time.perf_counter(), time.process_time()
    STEPS[step](root)
    sender.send(
        {
            "seconds": round(time.perf_counter() - began, 2),
            "cpu_seconds": round(time.process_time() - used, 2),
            "peak_mib": peak_mib(),
        }
    )


@contextmanager
def repeated_data(files: Sequence[Path], times: int) -> Iterator[tuple[Path, dict[str, int]]]:
    """A temporary folder with the repeated files in data.json, and the sizes of that file."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        questions = write_repeated(files, times, root / "data.json")
        size = (root / "data.json").stat().st_size
        print(f"{times} ×: {questions:,} questions, {size / 1e6:.0f} MB", flush=True)
        yield root, {"times": times, "questions": questions, "bytes": size}


def measure(files: Sequence[Path], times: int) -> dict[str, Any]:
    """Run all steps on the files repeated `times` times, in a temporary folder."""
    with repeated_data(files, times) as (root, sizes):
        steps = {}
        for step in STEPS:
            result = measure_step(step, root)
            cpu_microseconds = 1e6 * result["cpu_seconds"] / sizes["questions"]
            result["cpu_microseconds_per_question"] = round(cpu_microseconds, 1)
            steps[step] = result
            print(f"  {step:<12} {result}", flush=True)
    return {**sizes, "steps": steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="SQuAD-format files")
    parser.add_argument(
        "--times", type=int, nargs="+", default=[1, 5, 20], help="repetitions of all articles"
    )
    arguments = parser.parse_args()
    names = " ".join(file.name for file in arguments.data)
    times = " ".join(map(str, arguments.times))
    result = {
        "command": f"python -m benchmarks.scale --data {names} --times {times}",
        "date": today(),
        "machine": machine(),
        "runs": [measure(arguments.data, number) for number in arguments.times],
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
