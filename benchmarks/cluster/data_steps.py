"""Ingestion, counting and encoding of repeated data in one process, on one node and on two.

Usage: python -m benchmarks.cluster.data_steps --data train.json

The nodes are those of a local Ray cluster, with one CPU each. The program itself reads and cuts the
files, and numbers and writes the rows: `driver_cpu_seconds` is that part. For the rest of the time,
it waits for the nodes. The digests of all files must be equal.
"""

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

from benchmarks.common.machine import machine, print_result, today
from benchmarks.scale import repeated_data
from infra.artifacts.manifest import sha256_of
from infra.cluster.map_reduce import map_on_cluster
from infra.cluster.ray_cluster import connect, disconnect
from tasks.data.ingest import ingest_file
from tasks.embeddings.formats.select import select_vectors
from tasks.embeddings.formats.source import PACKAGED
from tasks.text.build_vocabulary import VocabularyConfig, build_vocabulary
from tasks.text.encode import encode_split
from tasks.text.split_texts import distinct_forms, wanted_words

RESULT = Path(__file__).parents[1] / "results" / "cluster" / "data-steps.json"
OBJECT_STORE = 200 * 2**20
PARAMETERS = VocabularyConfig()


@contextmanager
def nodes(number: int) -> Iterator[None]:
    """A Ray cluster of `number` nodes with a CPU each, which has run a first task; none for 0."""
    if not number:
        yield
        return
    resources = {"num_cpus": 1, "object_store_memory": OBJECT_STORE}
    head = {**resources, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(number - 1):
        cluster.add_node(**resources)
    os.environ["RAY_ADDRESS"] = cluster.address
    try:
        connect()
        list(map_on_cluster(_import_steps, range(4 * number)))
        yield
    finally:
        del os.environ["RAY_ADDRESS"]
        disconnect()
        cluster.shutdown()


def _import_steps(number: int) -> set[str]:
    """The modules of the steps, which a process of a node imports for this, and then has."""
    return {ingest_file.__module__, encode_split.__module__}


def measured(step: Callable[[], object]) -> dict[str, float]:
    """Seconds of a step, and how long this process computed in them."""
    began, used = time.perf_counter(), time.process_time()
    step()
    return {
        "seconds": round(time.perf_counter() - began, 2),
        "driver_cpu_seconds": round(time.process_time() - used, 2),
    }


def run_steps(file: Path, out: Path, vocabulary: Path) -> dict[str, Any]:
    """The steps, each with its time, and the digests of the files that they write to `out`."""
    split, encoded = out / "ingested", out / "encoded"
    split.mkdir(parents=True)
    encoded.mkdir()
    steps = {"ingest": measured(lambda: ingest_file(split, file))}
    steps["count"] = measured(lambda: distinct_forms([split]))
    if not vocabulary.exists():
        write_vocabulary(vocabulary, split)
    steps["encode"] = measured(lambda: encode_split(encoded, split, vocabulary))
    for step, result in steps.items():
        print(f"  {step:<8} {result}", flush=True)
    return {"steps": steps, "digests": {f.name: sha256_of(f) for f in sorted(out.glob("*/*"))}}


def write_vocabulary(out: Path, split: Path) -> None:
    """Write the vocabulary of an ingested split, for all runs."""
    vectors = out / "vectors"
    vectors.mkdir(parents=True)
    wanted = wanted_words([split], PARAMETERS.lower_case)
    select_vectors(vectors, PACKAGED, wanted, PARAMETERS.pretrained_words)
    build_vocabulary(out, split, [], vectors, PARAMETERS)


def measure(files: Sequence[Path], times: int) -> dict[str, Any]:
    """All steps on the files repeated `times` times, by the number of nodes."""
    with repeated_data(files, times) as (root, sizes):
        runs = {}
        for number in range(3):
            key = f"{number} node(s)" if number else "one process"
            print(key, flush=True)
            with nodes(number):
                runs[key] = run_steps(root / "data.json", root / key, root / "vocabulary")
        if any(run["digests"] != runs["one process"]["digests"] for run in runs.values()):
            raise SystemExit("The files depend on the number of nodes.")
    return {
        **sizes,
        "digests": runs["one process"]["digests"],
        "seconds": {key: run["steps"] for key, run in runs.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="SQuAD-format files")
    parser.add_argument("--times", type=int, default=20, help="repetitions of all articles")
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    names = " ".join(file.name for file in arguments.data)
    result = {
        "command": f"python -m benchmarks.cluster.data_steps --data {names} "
        f"--times {arguments.times}",
        "date": today(),
        "machine": machine(),
        "measured": measure(arguments.data, arguments.times),
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    print_result(result, arguments.out)


if __name__ == "__main__":
    main()
