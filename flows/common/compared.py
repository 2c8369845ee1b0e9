"""The trainings of a comparison: those that have ended so far, and the time until the others do."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from flows.common.training import Training
from infra.artifacts.stage import Output
from infra.errors import RetryableError, UserError, first_line
from infra.masking import mask_secrets
from infra.progress import Progress
from tasks.reports.comparison import Cell, CellTrainings, Missing


@dataclass(frozen=True)
class ComparedVariant:
    """A variant trained from one seed, and the table cell that it counts towards."""

    cell: Cell
    training: Training
    trained: Output
    error_report: Output


@dataclass(frozen=True)
class Outcomes:
    """All trainings of a comparison, and the results or errors of those that have ended."""

    grid: Sequence[tuple[Cell, Training]]
    ended: dict[int, ComparedVariant | Exception] = field(default_factory=dict)

    @property
    def finished(self) -> list[ComparedVariant]:
        """The results, in the order of the grid."""
        ordered = (self.ended[number] for number in sorted(self.ended))
        return [outcome for outcome in ordered if isinstance(outcome, ComparedVariant)]

    @property
    def cells(self) -> list[CellTrainings]:
        """All cells of the table, in the order of the grid, with the results so far."""
        results: dict[Cell, list[ComparedVariant]] = {cell: [] for cell, _ in self.grid}
        for result in self.finished:
            results[result.cell].append(result)
        return [
            CellTrainings(
                cell,
                [result.trained.folder for result in own],
                [result.error_report.folder for result in own],
            )
            for cell, own in results.items()
        ]

    @property
    def missing(self) -> list[Missing]:
        """The trainings that failed or have not ended, in the order of the grid."""
        return [
            Missing(cell, training.config.training.seed, sentence(outcome) if outcome else None)
            for number, (cell, training) in enumerate(self.grid)
            if not isinstance(outcome := self.ended.get(number), ComparedVariant)
        ]

    @property
    def errors(self) -> list[Exception]:
        """The errors of the failed trainings, in the order of the grid, but mistakes of the user
        last, because they would recur in a retry."""
        ordered = (self.ended[number] for number in sorted(self.ended))
        errors = [outcome for outcome in ordered if isinstance(outcome, Exception)]
        return sorted(errors, key=recurs)

    def failure(self, page: str) -> UserError:
        """The error of a comparison some of whose trainings failed; `page` has the others.

        It is retryable if one of them failed for another reason than a mistake of the user.
        """
        missing = self.missing
        names = "\n".join(f"{m.cell.name} · seed {m.seed}: {m.error}" for m in missing)
        return (UserError if recurs(self.errors[0]) else RetryableError)(
            f"{len(missing)} of {len(self.grid)} trainings failed:\n{names}\n"
            f"The page has the others: {page}. Run the same command again to train only what is "
            "missing."
        )

    def time_left(self, seconds: float) -> str:
        """The estimated time until all trainings have ended, such as "1:23:00 left".

        Those to come are expected to take as long as those that ended; `seconds` is the time since
        the trainings started. Empty if none has been trained since then.
        """
        rate = sum(not result.trained.cached for result in self.finished) / seconds
        pending = len(self.grid) - len(self.ended)
        return Progress("", 0, pending, "trainings", rate, "").time_left


def recurs(error: Exception) -> bool:
    """Whether a failed training would fail again, because of a mistake of the user."""
    return isinstance(error, UserError) and not isinstance(error, RetryableError)


def sentence(error: Exception) -> str:
    """The error of a failed training in one line."""
    if isinstance(error, UserError):
        return str(error)
    return f"{type(error).__name__}: {mask_secrets(first_line(error))}"
