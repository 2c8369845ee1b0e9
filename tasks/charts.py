"""Where things stand in a drawing: ticks and scales of the pages' charts."""

import math
from collections.abc import Callable, Sequence


def ticks(values: Sequence[float], wanted: int, smallest: float = 0.0) -> list[float]:
    """About `wanted` round numbers that enclose the values."""
    low, high = min(values), max(values)
    rough = max((high - low) / wanted, abs(high) / 1000, 1e-3)
    power = 10.0 ** math.floor(math.log10(rough))
    step = max(next(power * m for m in (1, 2, 5, 10) if power * m >= rough), smallest)
    first, last = math.floor(low / step), math.ceil(high / step)
    if first == last:
        first, last = first - 1, last + 1
    return [round(i * step, 10) for i in range(first, last + 1)]


def scale(low: float, high: float, first: float, last: float) -> Callable[[float], float]:
    """The map that takes low..high to first..last; to their middle where low equals high."""
    if low == high:
        return lambda value: (first + last) / 2
    return lambda value: first + (last - first) * (value - low) / (high - low)
