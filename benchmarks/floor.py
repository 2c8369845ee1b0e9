"""Where the time of a training step goes on a CPU, and how short the step could be.

Usage: python -m benchmarks.floor [--dataset squad-v1.1-recovered] [--steps 12] [--out FILE.json]

Profiles steps of `char` on one thread, with products in bfloat16 and in float32, and reports each
operator's share of the time. Counts what these steps compute (matrix products, convolutions, LSTMs;
the backward pass counts as two forward passes) and the bytes that their operators read and write.
Divides both by the speed that this machine reached in the same run: on a large matrix product or a
convolution, whichever was faster, and on the copy of a large tensor. The larger quotient is the
floor, the lower bound for these operators; fused operators would move fewer bytes.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.common.machine import machine, print_result, today, use_worker_allocator
from benchmarks.common.operators import operator_times, shares
from benchmarks.step import Data, load
from models.bidaf import BiDAF
from models.configs.presets import preset
from models.configs.variant import Precision
from models.trainer import Trainer

PRECISIONS: tuple[Precision, ...] = ("bfloat16", "float32")


@dataclass
class Counts:
    """Floating-point operations and bytes moved, in total or per second."""

    flops: float = 0.0
    bytes: float = 0.0


class _ByteCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the bytes that each operator reads and writes; views move nothing."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves((args, kwargs, out)) if isinstance(leaf, Tensor)]
        if not func.is_view:
            self.bytes += sum(tensor.nbytes for tensor in tensors)
        return out


def lstm_flops(module: nn.LSTM, x: Tensor) -> float:
    """Flops of a forward pass over (B, N, input): four gates of input and state per position."""
    rows, steps, size = x.shape
    return 2.0 * rows * steps * 4 * module.hidden_size * (size + module.hidden_size)


def training_flops(model: nn.Module, train: Callable[[], Any]) -> float:
    """Flops of the model and of its backward pass while `train` runs."""
    lstm_total = 0.0

    def add(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        nonlocal lstm_total
        assert isinstance(module, nn.LSTM)
        lstm_total += 3 * lstm_flops(module, inputs[0])  # PyTorch's counter omits LSTMs

    lstms = [module for module in model.modules() if isinstance(module, nn.LSTM)]
    hooks = [lstm.register_forward_pre_hook(add) for lstm in lstms]
    with FlopCounterMode(display=False) as counter:
        train()
    for hook in hooks:
        hook.remove()
    return lstm_total + float(counter.get_total_flops())


def count(trainer: Trainer, data: Data, steps: int) -> Counts:
    """Flops and bytes of `steps` training steps."""
    with _ByteCounter() as moved:
        flops = training_flops(trainer.model, lambda: train(trainer, data, steps))
    return Counts(flops, moved.bytes)


def train(trainer: Trainer, data: Data, steps: int) -> None:
    """Run `steps` steps of an epoch, from its beginning."""
    trainer.epoch = trainer.position = 0
    trainer.train_epoch(data.train, data.types, lambda reading: reading.epoch_step < steps)


def rate(action: Callable[[], Any], amount: float, times: int = 10) -> float:
    """`amount`, which an action computes or moves, per second of the fastest of several runs."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return amount / min(seconds)


def peaks(precision: Precision) -> Counts:
    """Flops and bytes that this machine computes and moves per second. Matrix products and
    convolutions come from different libraries, one of which may suit the processor better."""
    size, dtype = 2048, getattr(torch, precision)
    a, b = torch.randn(2, size, size, dtype=dtype)
    images, filters = (
        torch.randn(8, 256, 56, 56, dtype=dtype),
        torch.randn(256, 256, 3, 3).to(dtype),
    )
    source = torch.zeros(64 << 20)
    target = torch.empty_like(source)
    return Counts(
        max(
            rate(lambda: a @ b, 2.0 * size**3),
            rate(lambda: torch.conv2d(images, filters, padding=1), 18.0 * 256 * images.numel()),
        ),
        rate(lambda: target.copy_(source), 2.0 * source.nbytes),
    )


def measure(data: Data, precision: Precision, steps: int) -> dict[str, Any]:
    """Seconds per step, their floor, and the operators' shares of them."""
    variant = preset("char")
    training = replace(variant.training, precision=precision, optimizer="adam", learning_rate=0.001)
    torch.manual_seed(0)
    trainer = Trainer(BiDAF(variant.model, data.vectors, data.characters), training)
    train(trainer, data, steps)  # oneDNN compiles its kernels for these batches' shapes
    began = time.perf_counter()
    train(trainer, data, steps)
    seconds = (time.perf_counter() - began) / steps
    with profile() as profiler:
        train(trainer, data, steps)
    counted, peak = count(trainer, data, steps), peaks(precision)
    floors = {
        "flops": counted.flops / steps / peak.flops,
        "bytes": counted.bytes / steps / peak.bytes,
    }
    return {
        "seconds_a_step": seconds,
        "examples_per_second": training.batch_size / seconds,
        "counted_a_step": {name: value / steps for name, value in asdict(counted).items()},
        "peak_a_second": asdict(peak),
        "floor_seconds_a_step": floors,
        "operators": shares(operator_times(profiler.key_averages())),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="squad-v1.1-recovered")
    parser.add_argument("--steps", type=int, default=12, help="steps to profile (default: 12)")
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    arguments = parser.parse_args()
    use_worker_allocator()
    torch.set_num_threads(1)
    data = load(arguments.dataset)
    result = {
        "command": f"python -m benchmarks.floor --dataset {arguments.dataset} "
        f"--steps {arguments.steps}",
        "date": today(),
        "machine": machine(),
        "measured": {p: measure(data, p, arguments.steps) for p in PRECISIONS},
    }
    print_result(result, arguments.out)


if __name__ == "__main__":
    main()
