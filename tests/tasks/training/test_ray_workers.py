"""What the workers of all trainings share."""

import platform
from pathlib import Path

import pytest
import ray
import torch
from ray.exceptions import RayActorError
from ray.train import ControllerError

from tasks.training.ray_workers import (
    LOW_MEMORY,
    CheckpointSchedule,
    _FailureReports,
    is_slow,
    kept_threads,
    out_of_memory,
    slow_size,
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


def test_sizes_of_slow_kernels_are_named_on_a_gpu() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert slow_size(128, gpu) is None and slow_size(129, cpu) is None
    assert str(slow_size(129, gpu)).startswith(
        "hidden_size 129 is above 128, the largest for which"
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel errors might be"),
            "the GPU of a worker failed (CUDA error: unspecified launch failure)",
        ),
        (RayActorError(), "a worker died"),
        (RuntimeError("[1] Connection closed by peer"), "a worker lost its connection to another"),
        (ValueError("no\nmore"), "a worker failed (no)"),
    ],
)
def test_failures_of_workers_have_their_words(error: Exception, reason: str) -> None:
    lines: list[object] = []
    _FailureReports("char", lines.append).after_exception(None, {0: error})
    (line,) = lines
    assert str(line).startswith(f"char: {reason}")
    assert str(line).endswith(". New workers continue from the last checkpoint.")


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
