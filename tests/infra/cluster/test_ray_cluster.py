"""The variables of a Ray cluster that is started here, and why one can't be joined."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import ray
from ray._private import services

from infra.cluster.ray_cluster import NO_CLUSTER_HERE, NO_NODE_HERE, _reason, allocator_variables


@pytest.mark.parametrize(
    ("folder", "loaded"), [("plain", True), ("with space", False), ("with:colon", False)]
)
def test_library_is_preloaded_if_its_path_allows(
    folder: str, loaded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / folder / "ray" / "core" / "libjemalloc.so"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.setattr(ray, "__file__", str(library.parents[1] / "__init__.py"))
    assert allocator_variables().get("LD_PRELOAD") == (str(library) if loaded else None)


FREEING = """
import sys, time
import numpy as np

def mebibytes():
    lines = open("/proc/self/smaps_rollup").read().splitlines()[1:]
    found = {line.split(":")[0]: int(line.split()[1]) >> 10 for line in lines}
    return found["Rss"], found["LazyFree"]

blocks = [np.ones(20 * 2**20, np.uint8) for _ in range(10)]
blocks.clear()
print(*mebibytes())
for _ in range(40):
    time.sleep(0.05)
    blocks = [bytes(1000) for _ in range(3000)]  # it looks at the clock now and then
print(*mebibytes())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_freed_memory_is_kept_until_others_need_it() -> None:
    variables = allocator_variables()
    conf = variables["MALLOC_CONF"].replace("dirty_decay_ms:10000", "dirty_decay_ms:500")
    command = [sys.executable, "-c", FREEING]
    done = subprocess.run(
        command,
        env=os.environ | variables | {"MALLOC_CONF": conf},
        capture_output=True,
        text=True,
        check=True,
    )
    at_once, later = (tuple(map(int, line.split())) for line in done.stdout.splitlines())
    assert at_once[0] > 200 and at_once[1] < 20, "it can be used again"
    assert later[0] > 200 and later[1] > 150, "the kernel may take it"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (RuntimeError(f"{NO_NODE_HERE} matching attributes: 'x'"), "This machine is not a node of"),
        (ConnectionError(f"{NO_CLUSTER_HERE}. Please specify"), "no Ray cluster runs on this"),
        (ConnectionError("failed"), "refuses the connection"),
        (RuntimeError("anything else"), None),
    ],
)
def test_reason_names_what_is_missing(error: Exception, sentence: str | None) -> None:
    reason = _reason("ray-head:6379", error)
    assert (reason is None) if sentence is None else (reason is not None and sentence in reason)


def test_reasons_are_those_of_this_version_of_ray() -> None:
    source = inspect.getsource(services)
    assert NO_NODE_HERE in source and NO_CLUSTER_HERE in source
