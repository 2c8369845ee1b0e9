"""End orphaned runs, whose flow process was killed.

`bidaflow up` runs it before it starts the worker.

Usage: python -m flows.commands.end_orphaned_runs
"""

from tasks.tracking.orphaned_runs import crash_untracked_runs, end_orphaned_runs

if __name__ == "__main__":
    count = len(end_orphaned_runs()) + crash_untracked_runs()
    if count:
        print(f"Marked {count} killed run(s) as crashed.")
