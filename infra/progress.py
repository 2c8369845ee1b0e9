"""The record of the progress of long work, with the estimate of the time left.

It needs nothing but the standard library, because training programs without Ray and rich read it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """The progress of a piece of work at one moment. Workers send it to the driver as it is."""

    name: str
    done: float
    total: float | None  # None or 0 if unknown
    unit: str  # such as "words"; "bytes" are shown as megabytes
    rate: float  # units a second
    details: str  # what else a line says, such as the loss; may be empty

    @property
    def percent(self) -> float:
        """The share that is done, from 0 to 100; 0 if the total is unknown."""
        return min(100 * self.done / self.total, 100.0) if self.total else 0.0

    @property
    def time_left(self) -> str:
        """The estimated time left, such as "1:23 left"; empty if unknown, or if all is done."""
        if not self.total or not self.rate or self.done >= self.total:
            return ""
        minutes, seconds = divmod(round((self.total - self.done) / self.rate), 60)
        hours, minutes = divmod(minutes, 60)
        clock = f"{hours}:{minutes:02}" if hours else str(minutes)
        return f"{clock}:{seconds:02} left"

    @property
    def title(self) -> str:
        """The name of the work, as shown before a bar."""
        return self.name

    @property
    def text(self) -> str:
        """Share, rate and time left, as shown next to a bar."""
        if self.unit == "bytes":
            done, rate = megabytes(self.done), megabytes(self.rate)
            share = (
                f"{done} of {megabytes(self.total)} ({self.percent:.0f} %)" if self.total else done
            )
        else:
            share = f"{self.percent:.0f}%" if self.total else ""
            rate = f"{self.rate:,.0f} {self.unit}"
        return ", ".join(filter(None, (share, f"{rate}/s", self.details, self.time_left)))

    def __str__(self) -> str:
        """The progress as one line."""
        return f"{self.name}: {self.text}"


def megabytes(count: float) -> str:
    """A number of bytes in readable form: "862.2 MB"."""
    return f"{count / 1e6:,.1f} MB"
