"""End what dead flow runs have left, and those in Prefect that never came to life.

`bidaflow up` runs it before it starts the worker, and after it has ended it.

Usage: python -m flows.commands.end_dead_runs REASON
"""

import sys

import httpx

from tasks.tracking.life_cycle import end_dead_runs, end_untracked_runs


def main(reason: str) -> None:
    """End them, and print how many they were."""
    try:
        count = len(end_dead_runs(reason)) + end_untracked_runs()
    except (httpx.HTTPError, RuntimeError) as error:  # as Prefect's client reports a dead server
        print(f"What dead runs have left is ended at the next start: {error}")
        return
    if count:
        print(f"Ended what {count} dead run(s) had left.")


if __name__ == "__main__":
    main(sys.argv[1])
