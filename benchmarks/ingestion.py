"""Time, memory and disk space of all steps from SQuAD-format files to encoded examples.

python -m benchmarks.ingestion --train train.json --dev dev.json
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.common.machine import machine, peak_mib, today
from tasks.data.ingest import ingest_file
from tasks.embeddings.formats.select import select_vectors
from tasks.embeddings.formats.source import PACKAGED
from tasks.text.build_vocabulary import VocabularyConfig, build_vocabulary
from tasks.text.encode import encode_split
from tasks.text.split_texts import wanted_words

RESULT = Path(__file__).parent / "results" / "ingestion.json"
SPLITS = ("train", "dev")
Facts = dict[str, Any]


class Clock:
    """Seconds of each named step, and the process's peak memory at the end of the step."""

    def __init__(self) -> None:
        self.steps: dict[str, dict[str, float]] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        seconds = time.perf_counter() - start
        self.steps[name] = {"seconds": round(seconds, 2), "peak_mib": peak_mib()}
        print(f"{name:<12} {seconds:6.2f} s   peak {peak_mib():5d} MiB", flush=True)

    @property
    def seconds(self) -> float:
        return sum(step["seconds"] for step in self.steps.values())


def run(files: dict[str, Path], root: Path, clock: Clock) -> Facts:
    """Run all steps, one split after the other, in folders below `root`; return their facts."""
    facts: Facts = {}
    ingested = {name: folder(root, f"ingested-{name}") for name in files}
    for name, file in files.items():
        with clock.step(f"ingest {name}"):
            facts[name] = ingest_file(ingested[name], file)
    parameters = VocabularyConfig()
    vectors, vocabulary = folder(root, "vectors"), folder(root, "vocabulary")
    with clock.step("vectors"):
        wanted = wanted_words(list(ingested.values()), parameters.lower_case)
        facts["vectors"] = select_vectors(vectors, PACKAGED, wanted, parameters.pretrained_words)
    with clock.step("vocabulary"):
        facts["vocabulary"] = build_vocabulary(
            vocabulary, ingested["train"], [ingested["dev"]], vectors, parameters
        )
    for name, split in ingested.items():
        with clock.step(f"encode {name}"):
            encode_split(folder(root, f"encoded-{name}"), split, vocabulary)
    return facts


def folder(root: Path, name: str) -> Path:
    """A new folder below `root`."""
    path = root / name
    path.mkdir()
    return path


def measure(files: dict[str, Path]) -> Facts:
    """Run every step once in a temporary folder, and return the measurements."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as root:
        facts = run(files, Path(root), clock)
        sizes = {
            path.relative_to(root).as_posix(): path.stat().st_size
            for path in sorted(Path(root).rglob("*.*"))
        }
    tokens = sum(
        facts[name][f"{kind}_tokens"] for name in files for kind in ("context", "question")
    )
    return {
        "date": today(),
        "machine": machine(),
        "data": {name: file.name for name, file in files.items()},
        "facts": facts,
        "steps": clock.steps,
        "seconds": round(clock.seconds, 2),
        "tokens_per_second": round(tokens / clock.seconds),
        "peak_mib": peak_mib(),
        "bytes": sizes,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in SPLITS:
        parser.add_argument(f"--{name}", type=Path, required=True, help="SQuAD-format file")
    arguments = vars(parser.parse_args())
    files = {name: arguments[name] for name in SPLITS}
    names = " ".join(f"--{name} {file.name}" for name, file in files.items())
    result = {"command": f"python -m benchmarks.ingestion {names}", **measure(files)}
    for name, size in result["bytes"].items():
        print(f"{name:<36} {size / 1e6:7.2f} MB")
    print(f"{result['seconds']} s, {result['tokens_per_second']:,} tokens/s")
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
