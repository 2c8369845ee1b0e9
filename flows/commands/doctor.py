"""Check everything that a run depends on, as seen from this machine, and suggest remedies."""

import sys

from rich.text import Text

from flows.commands.terminal import show, table
from infra.services.checks import Check, run_checks


def doctor() -> None:
    """Check the services, the storage root and this machine; exit with 1 if something is wrong."""
    checks = list(run_checks())
    show(table(("check", "state", "found", "what to do"), map(_row, checks)))
    failed = sum(not check.ok for check in checks)
    show(f"{failed} of {len(checks)} checks failed." if failed else "All is well.")
    sys.exit(1 if failed else 0)


def _row(check: Check) -> tuple[str | Text, ...]:
    state = Text("ok", "green") if check.ok else Text("fails", "red")
    return check.name, state, check.found, check.to_do or ""
