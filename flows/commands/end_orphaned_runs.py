"""Command `sweep`: end orphaned runs, whose flow process was killed.

`make up` runs it before it starts the worker.

Usage: python -m flows.commands.end_orphaned_runs
"""

from tasks.tracking.orphaned_runs import sweep, sweep_unnoted

if __name__ == "__main__":
    ended = len(sweep()) + sweep_unnoted()
    if ended:
        print(f"{ended} run(s) that had been killed are told to be so.")
