"""The variables of a Ray cluster that is started here."""

from pathlib import Path

import pytest
import ray

from infra.cluster.ray_cluster import allocator_variables


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
