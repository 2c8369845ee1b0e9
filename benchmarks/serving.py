"""Answers over HTTP: `bidaflow serve` beside MLflow's scoring server, and under changes and kills.

Usage: python -m benchmarks.serving DATASET SPLIT_FOLDER [--seconds 300] [--out FILE.json]

DATASET has a champion in the storage root, and for the second part a previous champion;
SPLIT_FOLDER is an ingested split. Both servers answer the same questions, whose contexts have close
to 130 tokens, for 1, 8 and 64 clients, each with a connection that it keeps. The results have the
time of requests, that of the model, which `bidaflow serve` counts, and the memory of all processes
of a server at the end of a load. Then 8 clients go on while the alias changes between the two
versions and the replica is killed, five times each. Every answer is compared with what the version
that it names answers by itself. Aliases are restored.
"""

import argparse
import http.client
import itertools
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil

from benchmarks.answering import Pair, single_questions
from benchmarks.common.machine import machine, print_result, today
from infra.settings import settings
from tasks.datasets.paths import dataset_name
from tasks.evaluation.evaluate import load_split
from tasks.inference.predictor import Predictor
from tasks.tracking import registry

CLIENTS = (1, 8, 64)
DISTURBED_CLIENTS, CHANGES = 8, 5
RETRY_SECONDS = 10.0
BIDAFLOW, MLFLOW = 8765, 8766  # ports

Answer = dict[str, Any]
Expected = dict[str, Sequence[Any]]  # version -> its answers


class Client:
    """A client that keeps its connection."""

    def __init__(self, port: int, pairs: Sequence[Pair]) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.bodies = [
            json.dumps({"inputs": [{"question": question, "context": context}]})
            for question, context in pairs
        ]

    def ask(self, number: int) -> tuple[str, Answer]:
        """The version that answered, "" if it is not named, and its answer.

        Raises:
            OSError, http.client.HTTPException: the request failed.
        """
        try:
            headers = {"Content-Type": "application/json"}
            self.connection.request("POST", "/invocations", self.bodies[number], headers)
            response = self.connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            raise
        if response.status != http.client.OK:
            raise http.client.HTTPException(f"status {response.status}")
        version = (response.getheader("x-model-version") or "").rpartition("/")[2]
        return version, json.loads(content)["predictions"][0]


@contextmanager
def started(command: Sequence[str], port: int, probe: str) -> Iterator[psutil.Process]:
    """A server, from when it answers until the end of the block."""
    # MLflow starts a program of this environment.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {
        **os.environ,
        "PATH": path,
        "MLFLOW_TRACKING_URI": settings().tracking_uri,
    }
    process = psutil.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    try:
        while not _responds(port, probe):
            if process.poll() is not None:
                raise RuntimeError(f"{' '.join(command)} ended with status {process.poll()}")
            time.sleep(0.2)
        yield process
    finally:
        family = [*process.children(recursive=True), process]
        process.terminate()
        _, alive = psutil.wait_procs(family, 60)
        for member in alive:
            member.kill()


def _responds(port: int, path: str) -> bool:
    with suppress(OSError):
        return _get(port, path).status == http.client.OK
    return False


def _get(port: int, path: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", path)
    return connection.getresponse()


def batches() -> np.ndarray:
    """What the model has done until now: batches, questions, and seconds."""
    lines = _get(BIDAFLOW, "/metrics").read().decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    names = ("model_seconds_count", "batch_questions_sum", "model_seconds_sum")
    return np.array([float(values[f"bidaflow_{name}"]) for name in names])


def run_clients(
    count: int, work: Callable[[int, threading.Event], None], meanwhile: Callable[[], None]
) -> None:
    """Run so many threads, which get their number and an event that ends them, during a call."""
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(n, stop)) for n in range(count)]
    for thread in threads:
        thread.start()
    try:
        meanwhile()
    finally:
        stop.set()
    for thread in threads:
        thread.join()


def measure(port: int, pairs: Sequence[Pair], count: int, seconds: float) -> dict[str, float]:
    """Milliseconds of a request, and requests per second, with so many clients; of `bidaflow serve`
    also questions and milliseconds of a batch that the model answers."""
    times: list[float] = []

    def work(first: int, stop: threading.Event) -> None:
        client = Client(port, pairs)
        for number in itertools.count(first):
            began = time.perf_counter()
            client.ask(number % len(pairs))
            times.append(time.perf_counter() - began)
            if stop.is_set():
                return

    before = batches() if port == BIDAFLOW else None
    run_clients(count, work, lambda: time.sleep(seconds))
    measured = {
        "requests": len(times),
        "per_second": len(times) / seconds,
        "median_ms": 1000 * statistics.median(times),
        "95_percent_ms": 1000 * float(np.quantile(times, 0.95)),
        "99_percent_ms": 1000 * float(np.quantile(times, 0.99)),
    }
    if before is not None:
        number, questions, model_seconds = batches() - before
        measured["questions_per_batch"] = questions / number
        measured["model_ms_per_batch"] = 1000 * model_seconds / number
    return measured


def disturb(
    server: psutil.Process, pairs: Sequence[Pair], expected: Expected, name: str, seconds: float
) -> dict[str, Any]:
    """What 8 clients see while the alias changes and the replica is killed, in turns."""
    counts: Counter[str] = Counter()
    waits: list[float] = []
    memory = [_mib(server)]

    def work(first: int, stop: threading.Event) -> None:
        client, failed = Client(BIDAFLOW, pairs), 0.0
        for number in itertools.count(first):
            number %= len(pairs)
            try:
                version, answer = client.ask(number)
            except (OSError, http.client.HTTPException):
                counts["failed requests"] += 1
                failed = failed or time.perf_counter()
                time.sleep(0.1)
            else:
                counts[f"answers of version {version}"] += 1
                counts["wrong answers"] += not _equal(answer, expected[version][number])
                if failed:
                    waits.append(time.perf_counter() - failed)
                failed = 0.0
            if stop.is_set() and not failed:
                return

    def change() -> None:
        pause = seconds / (2 * CHANGES)
        for version in itertools.islice(itertools.cycle(expected), 1, CHANGES + 1):
            registry.set_champion(registry.find_version(f"{name}/{version}"))
            while Client(BIDAFLOW, pairs).ask(0)[0] != version:
                time.sleep(0.5)
            time.sleep(pause)
            for replica in _replicas(server):
                replica.kill()
            time.sleep(pause)
            while not _responds(BIDAFLOW, "/ping"):
                time.sleep(0.5)
            memory.append(_mib(server))
            print(f"Version {version} took over; the replica was replaced.", file=sys.stderr)

    run_clients(DISTURBED_CLIENTS, work, change)
    return {
        **counts,
        "longest_wait_until_a_retry_was_answered_s": max(waits, default=0.0),
        "retries_that_took_more_than_10_s": sum(wait > RETRY_SECONDS for wait in waits),
        "memory_mib": memory,
    }


def _equal(answer: Answer, other: Answer) -> bool:
    close = np.isclose(answer["probability"], other["probability"], rtol=1e-3, atol=1e-5)
    return answer["answer"] == other["answer"] and bool(close)


def _replicas(server: psutil.Process) -> list[psutil.Process]:
    return [replica for child in server.children() for replica in child.children()]


def _mib(server: psutil.Process) -> int:
    """The resident memory of a server's processes; pages that they share count once."""
    total = 0
    for process in [server, *server.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total >> 20


def answers_of(versions: Sequence[registry.RegisteredVersion], pairs: Sequence[Pair]) -> Expected:
    """What each version answers by itself."""
    answers: Expected = {}
    for version in versions:
        with TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            registry.download(version.model_id, model)
            predictor = Predictor.load(model)
            answers[version.version] = [predictor.answer([pair])[0] for pair in pairs]
    return answers


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", help="a dataset with a champion and a previous champion")
    parser.add_argument("split", type=Path, help="folder of an ingested split")
    parser.add_argument("--seconds", type=float, default=300, help="of each load (default: 300)")
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    arguments = parser.parse_args()
    pairs = single_questions(load_split(arguments.split))
    name = f"bidaf-{dataset_name(arguments.dataset)}"
    found = [registry.find(name, a) for a in (registry.CHAMPION, registry.PREVIOUS)]
    versions = [version for version in found if version is not None]
    expected = answers_of(versions, pairs)
    programs = Path(sys.executable).parent
    mlflow = f"{programs}/mlflow models serve -m models:/{name}@champion --env-manager local"
    result: dict[str, Any] = {
        "command": f"python -m benchmarks.serving {arguments.dataset} SPLIT_FOLDER "
        f"--seconds {arguments.seconds:g}",
        "date": today(),
        "machine": machine(),
    }
    with ExitStack() as servers:
        own = [f"{programs}/bidaflow", "serve", arguments.dataset, "--port", str(BIDAFLOW)]
        server = servers.enter_context(started(own, BIDAFLOW, "/ping"))
        other = [*mlflow.split(), "--port", str(MLFLOW)]
        beside = servers.enter_context(started(other, MLFLOW, "/ping"))
        for count in CLIENTS:
            result[f"{count}_clients"] = {
                label: measure(port, pairs, count, arguments.seconds)
                | {"memory_mib": _mib(process)}
                for label, port, process in (
                    ("bidaflow serve", BIDAFLOW, server),
                    ("mlflow", MLFLOW, beside),
                )
            }
            print(f"Measured {count} client(s).", file=sys.stderr)
        if len(versions) > 1:
            try:
                disturbed = disturb(server, pairs, expected, name, arguments.seconds)
            finally:
                for version in reversed(versions):  # also restores the alias `previous`
                    registry.set_champion(version)
            result["changes_and_kills"] = disturbed
    print_result(result, arguments.out)


if __name__ == "__main__":
    main()
