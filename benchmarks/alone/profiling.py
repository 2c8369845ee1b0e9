"""The speed of training steps, and what their time goes into."""

import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import EventList
from torch.profiler import profile

from benchmarks.alone.packed import Packed
from benchmarks.alone.training import make_trainer
from models.configs.variant import VariantConfig
from models.trainer import Reading

# Steps before the timed ones, in which torch chooses kernels and allocates memory, and steps after
# them under the profiler. A GPU is read, and so waited for, after every ten steps.
WARM_UP = PROFILED = 10
# Operators or kernels of a result.
SHOWN = 15


@dataclass
class _Stopwatch:
    """Times `timed` steps of a training or a few more, profiles the next ones, and ends it."""

    timed: int
    profiler: profile = field(default_factory=profile)
    marks: list[tuple[int, float]] = field(default_factory=list)  # steps so far, time

    def __call__(self, reading: Reading) -> bool:
        ends = (WARM_UP, WARM_UP + self.timed, WARM_UP + self.timed + PROFILED)
        if reading.step >= ends[len(self.marks)]:
            self.marks.append((reading.step, time.perf_counter()))
            if len(self.marks) == 2:
                self.profiler.start()
        return not self.is_done

    @property
    def is_done(self) -> bool:
        """Whether the profiled steps are over."""
        return len(self.marks) == 3

    @property
    def seconds_a_step(self) -> float:
        """Mean of the timed steps."""
        (first, began), (last, ended), _ = self.marks
        return (ended - began) / (last - first)

    @property
    def profiled_steps(self) -> int:
        """Number of steps under the profiler."""
        return self.marks[2][0] - self.marks[1][0]


def profile_steps(variant: VariantConfig, packed: Packed, timed: int) -> dict[str, Any]:
    """Seconds per step, examples per second, peak memory and the shares of the operators.

    On a GPU, `device_busy` is the time of its kernels over that of the steps: the rest of the time,
    it waits for the host. Steps are profiled after those that are timed, since profiling slows
    them down.
    """
    trainer, stopwatch = make_trainer(variant, packed), _Stopwatch(timed)
    on_gpu = trainer.device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    while not stopwatch.is_done:
        trainer.train_epoch(packed.train, packed.types, stopwatch)
    stopwatch.profiler.stop()
    averages, seconds = stopwatch.profiler.key_averages(), stopwatch.seconds_a_step
    result = {
        "variant": variant.name,
        "batch_size": variant.training.batch_size,
        "precision": variant.training.precision,
        "seconds_a_step": round(seconds, 5),
        "examples_per_second": round(variant.training.batch_size / seconds, 1),
        "operators": shares(operator_times(averages, on_gpu)),
    }
    if on_gpu:
        kernels = kernel_times(averages)
        result |= {
            "device_busy": round(sum(kernels.values()) / stopwatch.profiled_steps / seconds, 3),
            "peak_memory_mib": torch.cuda.max_memory_allocated() >> 20,
            "kernels": shares(kernels),
        }
    return result


def operator_times(averages: EventList, on_gpu: bool) -> dict[str, float]:
    """Each operator's own seconds: of GPU time if `on_gpu`, otherwise of CPU time. `averages` are a
    profiler's `key_averages()`, which take seconds to compute."""
    return {
        event.key: (event.self_device_time_total if on_gpu else event.self_cpu_time_total) / 1e6
        for event in averages
        if event.device_type == DeviceType.CPU  # operators; events of kernels would count twice
    }


def kernel_times(averages: EventList) -> dict[str, float]:
    """The seconds of each kernel and copy on the GPU, from the same `averages`."""
    return {
        event.key: event.self_device_time_total / 1e6
        for event in averages
        if event.device_type == DeviceType.CUDA and not event.is_user_annotation
    }


def shares(times: dict[str, float]) -> dict[str, float]:
    """The entries that took the most time, with their shares of the time of all."""
    total = sum(times.values())
    slowest = sorted(times, key=lambda key: -times[key])[:SHOWN]
    return {key: round(times[key] / total, 4) for key in slowest}
