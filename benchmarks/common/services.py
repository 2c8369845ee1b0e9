"""Runs `bidaflow up` for measurements."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def services_up(
    bidaflow: Sequence[str], checkout: Path, environment: Mapping[str, str]
) -> Iterator[None]:
    """Start the services of a checkout by its command, and stop them after the block."""
    up = subprocess.Popen(
        [*bidaflow, "up"], env=environment, cwd=checkout, stdout=subprocess.PIPE, text=True
    )
    try:
        assert up.stdout is not None
        next(line for line in up.stdout if line.startswith("Stop"))
        yield
    finally:
        subprocess.run([*bidaflow, "down"], env=environment, cwd=checkout, check=True)
        up.wait()
