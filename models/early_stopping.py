"""Whether a training run ends, and why."""

from collections.abc import Sequence

from models.configs.variant import TrainingConfig


def best_epoch(f1s: Sequence[float]) -> int:
    """The epoch with the highest F1, counted from 1; the first of several with equal F1."""
    return 1 + max(range(len(f1s)), key=f1s.__getitem__)


def is_out_of_time(config: TrainingConfig, seconds: float) -> bool:
    """Whether a training run that has taken `seconds` has reached its time limit."""
    return config.max_minutes is not None and seconds >= 60 * config.max_minutes


def stop_reason(config: TrainingConfig, f1s: Sequence[float], seconds: float) -> str | None:
    """The reason to end training now, as a clause; None to continue.

    `f1s` is the F1 (0 to 100) of each epoch so far on the part of validation that stops trainings,
    NaN without a validation split. It is that of the most probable answers to the unweighted
    questions, so neither the no-answer threshold nor `expected_no_answer` matters here. `seconds`
    is the time taken so far.
    """
    last, best = f1s[-1], best_epoch(f1s)
    if config.stop_at_f1 is not None and last >= config.stop_at_f1:
        return f"validation F1 {last:.2f} reached stop_at_f1 ({config.stop_at_f1:g})"
    if config.patience is not None and len(f1s) - best >= config.patience:
        return (
            f"validation F1 has not improved for {config.patience} epoch(s); "
            f"the best was {f1s[best - 1]:.2f} after epoch {best}"
        )
    if is_out_of_time(config, seconds):
        return f"the time limit of {config.max_minutes:g} minute(s) was reached"
    if len(f1s) >= config.epochs:
        return f"all {config.epochs} epoch(s) were completed"
    return None
