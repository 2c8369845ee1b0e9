"""What the workers of all trainings share."""

import platform
from pathlib import Path

import pytest
import ray
import torch
from ray.train import ControllerError

from tasks.training.ray_workers import (
    LOW_MEMORY,
    CheckpointSchedule,
    is_slow,
    kept_threads,
    out_of_memory,
)


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [(10, [False, False, True, False, False, True]), (0, [False] * 6)],
)
def test_checkpoint_timing_uses_the_shared_clock(minutes: float, expected: list[bool]) -> None:
    """The schedule ignores each worker's own clock: if one stopped to save and another did not,
    both would wait forever."""
    schedule = CheckpointSchedule(minutes=minutes)
    times = [100.0, 699.9, 700.0, 700.1, 1299.9, 1300.0]
    assert [schedule.is_due(seconds) for seconds in times] == expected


def test_bfloat16_is_slow_on_x86_without_avx512() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert not is_slow("float32", cpu) and not is_slow("bfloat16", gpu)
    if platform.machine() == "x86_64":
        has_avx512 = "AVX512" in torch.backends.cpu.get_cpu_capability()
        assert is_slow("bfloat16", cpu) == (not has_avx512)


def test_message_names_kept_threads() -> None:
    kept = torch.get_num_threads()
    assert kept_threads(kept) == ""
    added = f", with {kept} thread(s) per worker as before, not {kept + 1}"
    assert kept_threads(kept + 1) == added


def test_missing_memory_is_named() -> None:
    killed = ControllerError(RuntimeError(f"4 worker(s) were killed due to {LOW_MEMORY}."))
    assert str(out_of_memory(killed)).startswith("A machine ran out of memory, so Ray ended the")
    assert out_of_memory(ControllerError(RuntimeError("anything else"))) is None
    raylet = Path(ray.__file__).parent / "core" / "src" / "ray" / "raylet" / "raylet"
    assert LOW_MEMORY.encode() in raylet.read_bytes(), "it is what this version of Ray says"
