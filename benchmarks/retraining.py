"""Collects the results of a finished `make retrain` from its stages.

Usage: python -m benchmarks.retraining --command "make retrain …" --note "…" OUT.json
"""

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.common.machine import machine, today
from infra.artifacts.manifest import facts_of
from infra.settings import settings


def variants(stages: Path) -> list[dict[str, Any]]:
    """Each trained variant: its config, scores, epochs, and the breakdown of its time."""
    return [
        {
            "variant": facts["variant"],
            "questions_scored": facts["questions"],
            "parameters": facts["parameters"],
            "scores": facts["scores"],
            "seconds": facts["seconds"],
            "config": json.loads((folder / "config.json").read_text(encoding="utf-8")),
            "history": json.loads((folder / "history.json").read_text(encoding="utf-8")),
        }
        for folder in sorted((stages / "train").iterdir())
        for facts in [facts_of(folder)]
    ]


def data(stages: Path) -> list[dict[str, Any]]:
    """The facts of each ingested split: counts, ledger, oracle scores."""
    return [facts_of(folder) for folder in sorted((stages / "ingest").iterdir())]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--command", required=True, help="command of the retraining, recorded")
    parser.add_argument("--note", default="", help="note to record with the results")
    parser.add_argument("out", type=Path, help="JSON file for the results")
    arguments = parser.parse_args()
    stages = settings().root / "stages"
    result = {
        "command": arguments.command,
        "date": today(),
        "machine": machine(),
        "note": arguments.note,
        "data": data(stages),
        "variants": variants(stages),
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
