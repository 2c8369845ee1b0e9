"""Command `sweep`: end what killed flow runs have left. `make up` calls it before its worker.

Use: python -m flows.commands.end_orphaned_runs
"""

from tasks.tracking.orphaned_runs import sweep, sweep_unnoted

if __name__ == "__main__":
    ended = len(sweep()) + sweep_unnoted()
    if ended:
        print(f"{ended} run(s) that had been killed are told to be so.")
