"""The machine and the date, as recorded in every result."""

import json
import os
import platform
import sys
from datetime import date
from pathlib import Path
from typing import Any

from infra.atomic_files import write_atomically

# Ray and torch are imported where they are used, so that other measurements don't load them.


def use_worker_allocator() -> None:
    """Restart this program with the memory allocator settings of training processes."""
    from infra.cluster.ray_cluster import allocator_variables

    wanted = allocator_variables()
    if not wanted.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, os.environ | wanted)


def machine() -> dict[str, Any]:
    """Processor, the widest vector instructions that torch uses on it, cores, memory, GPU, torch,
    operating system and Python, as the system reports them."""
    import torch

    return {
        "processor": _processor(),
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        **({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}),
        "torch": torch.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or sys.platform


def today() -> str:
    """Today's date in the format of the results, YYYY-MM-DD."""
    return date.today().isoformat()


def peak_mib() -> int:
    """Peak resident memory of this program in MiB (Linux), without that of the program that started
    it."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) >> 10


def print_result(result: Any, out: Path | None) -> None:
    """Print a result, and write it to `out` if given."""
    text = json.dumps(result, indent=1)
    print(text)
    if out:
        write_atomically(out, text + "\n")
