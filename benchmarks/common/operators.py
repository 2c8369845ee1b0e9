"""Time of profiled steps, by operator and by kernel."""

from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import EventList

SHOWN = 15


def operator_times(averages: EventList, on_gpu: bool = False) -> dict[str, float]:
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
