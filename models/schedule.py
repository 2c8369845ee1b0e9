"""How large each step is."""

from models.config import TrainingConfig


def learning_rate(config: TrainingConfig, step: int, epochs_done: float) -> float:
    """The rate of the step after `step` others, when so many epochs, fractions counted, are done.

    It rises in equal parts over the first `warmup_steps` (Goyal et al., 2017, §2.2). A "linear"
    schedule falls with what is left of all `epochs`, whatever else may end the training sooner.
    """
    rate = config.learning_rate * min(1.0, (step + 1) / max(1, config.warmup_steps))
    if config.schedule == "linear":
        rate *= 1 - epochs_done / config.epochs
    return rate
