"""What the workers of all trainings share."""

from tasks.training.ray_workers import CheckpointSchedule


def test_checkpoint_timing_uses_the_shared_clock() -> None:
    """The schedule ignores each worker's own clock: if one stopped to save and another did not,
    both would wait forever."""
    schedule = CheckpointSchedule(step=0, minutes=10)
    times = [100.0, 699.9, 700.0, 700.1, 1299.9, 1300.0]
    due = [schedule.is_due(step, seconds) for step, seconds in enumerate(times)]
    assert due == [False, False, True, False, False, True]
