"""Seconds from the start of each command of `bidaflow` to its first output, and to its end.

    BIDAFLOW_ROOT=ROOT python -m benchmarks.studies.command_start OUT.json DATA.json

ROOT must be one in which `bidaflow retrain --variants char --training.epochs 1` has trained. Each
command runs three times; the medians are written. `retrain` finds nothing to do. The program ends
at a command that fails.
"""

import json
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.common.machine import machine, today

RUNS = 3
BIDAFLOW = str(Path(sys.executable).with_name("bidaflow"))


def seconds(arguments: list[str]) -> tuple[float, float]:
    """Seconds to the first byte on either output, and to the end."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [BIDAFLOW, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
    )
    assert process.stdout is not None
    process.stdout.read(1)
    first = time.perf_counter() - start
    process.stdout.read()
    if process.wait():
        sys.exit(f"bidaflow {shlex.join(arguments)} ended with status {process.returncode}.")
    return first, time.perf_counter() - start


def main() -> None:
    out, data = Path(sys.argv[1]), sys.argv[2]
    commands = [
        ["--help"],
        ["retrain", "--help"],
        ["retrain", "--variants", "char", "--training.epochs", "1"],
        ["ingest", "--data.dataset", data],
        ["check", data],
        ["ask", "Who wrote it?", "--context", "It was written by Ada."],
        ["embeddings", "evaluate", "--help"],
        ["lineage", "champion"],
        ["diff", "bidaf-tiny/1", "bidaf-tiny/1"],
        ["prune"],
        ["datasets"],
        ["variants"],
        ["status"],
        ["down"],
    ]
    rows = {}
    for arguments in commands:
        runs = [seconds(arguments) for _ in range(RUNS)]
        first, end = (round(statistics.median(column), 1) for column in zip(*runs, strict=True))
        rows[shlex.join(arguments).replace(data, "DATA.json")] = {"first_output": first, "end": end}
        print(f"{first:5.1f} {end:5.1f}  {' '.join(arguments)}", flush=True)
    result = {
        "command": f"python -m benchmarks.studies.command_start {shlex.join(sys.argv[1:])}",
        "date": today(),
        "machine": machine(),
        "runs": RUNS,
        "seconds": rows,
    }
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
