"""Log forwarding: sends what Ray's workers print, such as warnings, to the flow run's log."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from prefect import get_run_logger

# Ray puts it before a worker's line that it prints in the driver.
WORKER_PREFIX = re.compile(r"^(?:\x1b\[\d+m)?\([^)]*pid=[^)]*\)(?:\x1b\[0m)? ")


@contextmanager
def forwarding_logs() -> Iterator[None]:
    """Forward workers' lines to the log of the current flow run during the block."""
    output = _ForwardedOutput()
    with redirect_stdout(output):
        try:
            yield
        finally:
            output.end()


class _ForwardedOutput(io.TextIOBase):
    """Replaces standard output, to which Ray prints the workers' lines."""

    def __init__(self) -> None:
        self.log = get_run_logger()  # here, as Ray prints from a thread without a run
        self.rest = ""

    def write(self, text: str) -> int:
        *lines, self.rest = (self.rest + text).split("\n")
        for line in lines:
            self.log.info(WORKER_PREFIX.sub("", line))
        return len(text)

    def end(self) -> None:
        """Forward an unterminated last line."""
        if self.rest:
            self.write("\n")
