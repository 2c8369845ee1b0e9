"""The lines about a training's steps and epochs."""

from dataclasses import replace

from models.configs.presets import preset
from models.trainer import Reading
from tasks.training.epoch_log import EpochResult, stopping_f1, training_progress

READING = Reading(
    step=191,
    epoch_step=50,
    steps_in_epoch=141,
    nlls=[4.0, 2.5],
    examples_per_second=32.0,
    seconds=300.0,
)


def test_step_line_has_position_loss_and_time_left() -> None:
    variant = preset("char")
    variant = replace(variant, training=replace(variant.training, epochs=3, batch_size=32))
    progress = training_progress(variant, 2, READING)
    # 423 − 191 = 232 steps are left, at one a second.
    assert str(progress) == "char epoch 2/3 step 50/141  nll 2.50  32 examples/s  3:52 left"
    assert progress.title == "char epoch 2/3"
    assert progress.text == "nll 2.50  32 examples/s  3:52 left"
    assert round(progress.percent, 1) == round(100 * 191 / 423, 1)


def test_epoch_line_has_scores_and_rate() -> None:
    entry = {
        "epoch": 2,
        "train/nll": 1.2345,
        "dev/nll": 2.0,
        "dev/em": 50.125,
        "dev/f1": 60.0,
        "examples_per_second": 99.6,
    }
    scores = "dev nll 2.000, EM 50.12, F1 60.00, 100 examples/s"
    assert str(EpochResult("char", entry)) == f"char epoch 2: train nll 1.234, {scores}"
    with_validation = str(EpochResult("char", {**entry, "validation/f1": 55.5}))
    assert with_validation == f"char epoch 2: train nll 1.234, validation F1 55.50, {scores}"
    stopping = {**entry, "validation/f1": 55.5, "validation/f1_stopping": 54.0}
    assert "validation F1 55.50 (54.00 for stopping), dev" in str(EpochResult("char", stopping))


def test_only_the_part_that_stops_chooses_the_epoch() -> None:
    entry = {"validation/f1": 55.5, "validation/f1_stopping": 54.0}
    assert stopping_f1(entry, -1.0) == 54
    assert stopping_f1({"validation/f1": 55.5}, -1.0) == 55.5
    assert stopping_f1({}, -1.0) == -1
