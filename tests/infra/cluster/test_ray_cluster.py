"""The variables of a Ray cluster that is started here, and why one can't be joined."""

import inspect
import resource
from pathlib import Path

import pytest
import ray
from ray._private import services

from infra.cluster.ray_cluster import (
    LEAST_OPEN_FILES,
    REASONS,
    _reason,
    allocator_variables,
    connect,
)
from infra.errors import UserError


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


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        *((RuntimeError(f"{words}: x"), reason[:5]) for words, reason in REASONS.items()),
        (ConnectionError("failed"), "refuses the connection"),
        (RuntimeError("anything else"), None),
    ],
)
def test_reason_names_what_is_missing(error: Exception, sentence: str | None) -> None:
    reason = _reason("ray-head:6379", error)
    assert (reason is None) if sentence is None else (reason is not None and sentence in reason)


def test_reasons_are_those_of_this_version_of_ray() -> None:
    """Ray's errors differ by their words only, and no public module has these."""
    source = inspect.getsource(services)
    assert all(words in source for words in REASONS)


def test_too_few_open_files_are_refused() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (LEAST_OPEN_FILES - 1, before[1]))
        with pytest.raises(UserError, match=r"^At most 255 files may be open, .* `ulimit -n 4096`"):
            connect()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert not ray.is_initialized()
