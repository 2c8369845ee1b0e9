"""What every result says of the machine and the day it was measured on."""

import json
import os
import platform
import sys
from datetime import date
from pathlib import Path
from typing import Any

# Ray and torch are imported where they are used: programs that measure without them go without.


def as_a_worker() -> None:
    """Start this program once more, with the memory of processes that train."""
    from infra.ray_cluster import memory_here

    wanted = memory_here()
    if not wanted.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, os.environ | wanted)


def machine() -> dict[str, Any]:
    """Processor, cores, memory, GPU, operating system and Python, as the system names them."""
    import torch

    return {
        "processor": _processor(),
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
    """The date, as results bear it."""
    return date.today().isoformat()


def peak_mib() -> int:
    """The largest resident size of this program so far (Linux), not of the one that started it."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) >> 10


def tell(result: Any, out: Path | None) -> None:
    """Print a result, and write it to a file where one is named."""
    text = json.dumps(result, indent=1)
    print(text)
    if out:
        out.write_text(text + "\n", encoding="utf-8")
