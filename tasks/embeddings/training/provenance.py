"""The provenance of a set of vectors, as MLflow parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.artifacts.manifest import Manifest, digest_of
from tasks.embeddings.formats.store import VECTORS, History
from tasks.embeddings.training.config import EmbeddingSettings

# Length of digests that people compare.
DIGITS = 12


def vector_parameters(manifest: Manifest, history: History) -> dict[str, Any]:
    """The set of vectors that a stage's output was selected from, and for a set that this pipeline
    trained, its method, settings and corpus."""
    corpus, settings = history.get("corpus"), history.get("parameters", {})
    return {
        "source": _source_name(manifest, history["method"]),
        "source_digest": source_digest(manifest)[:DIGITS],
        "method": history["method"],
        "dimension": manifest["facts"]["dimension"],
        "corpus_digest": corpus and corpus[:DIGITS],
        "lower_case": history.get("lower_case"),
        "training": {name: settings.get(name) for name in EmbeddingSettings.model_fields},
    }


def source_digest(manifest: Manifest) -> str:
    """Digest of the content of the set of vectors that was a stage's input."""
    source = manifest["inputs"]["source"]
    if isinstance(source, Mapping) and "subwords" in source:  # as for a list of its files
        files = [digest for digest in source.values() if digest is not None]
        source = files if len(files) > 1 else files[0]
    return source if isinstance(source, str) else digest_of(source)


def _source_name(manifest: Manifest, method: str) -> str:
    """The set's file name; for vectors.parquet, which all sets of this pipeline share, the folder's
    name too, or only the method if a stage trained it."""
    name = str(manifest["facts"]["source"])
    if name != VECTORS:
        return name
    origin = next(parent for parent in manifest["made_from"] if parent["input"] == "source")
    return "/".join(Path(origin["path"]).parts[-2:]) if "path" in origin else method
