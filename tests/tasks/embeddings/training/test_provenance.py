"""The digest by which users compare sets of vectors."""

from typing import Any

import pytest

from infra.artifacts.manifest import digest_of
from tasks.embeddings.training.provenance import source_digest


@pytest.mark.parametrize(
    ("source", "digest"),
    [
        ("d1", "d1"),
        (["d1", "d2"], digest_of(["d1", "d2"])),
        ({"vectors": "d1", "subwords": None}, "d1"),
        ({"vectors": "d1", "subwords": "d2"}, digest_of(["d1", "d2"])),
        ({"words": "d1", "vectors": "d2"}, digest_of({"words": "d1", "vectors": "d2"})),
    ],
)
def test_digest_is_the_same_for_older_manifests(source: Any, digest: str) -> None:
    assert source_digest({"inputs": {"source": source}}) == digest
