"""Where the time of profiled steps went, by operator."""

from torch._C._autograd import DeviceType
from torch.profiler import profile

SHOWN = 15


def times(profiled: profile, on_gpu: bool = False) -> dict[str, float]:
    """Seconds of each operator's own: of computing on the GPU, or of the CPU's."""
    return {
        event.key: (event.self_device_time_total if on_gpu else event.self_cpu_time_total) / 1e6
        for event in profiled.key_averages()
        if event.device_type == DeviceType.CPU  # operators; kernels' own events count them twice
    }


def shares(times: dict[str, float]) -> dict[str, float]:
    """The operators that took most, and their shares of all operators' time."""
    total = sum(times.values())
    most = sorted(times, key=lambda key: -times[key])[:SHOWN]
    return {key: round(times[key] / total, 4) for key in most}
