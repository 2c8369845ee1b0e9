"""How a set of vectors was made, as MLflow's parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.artifacts.digests import digest_of
from infra.artifacts.manifest import Manifest
from tasks.embeddings.formats.store import VECTORS, History
from tasks.embeddings.training.config import EmbeddingSettings

DIGITS = 12
"""Of a digest that people compare."""


def vector_parameters(made: Manifest, history: History) -> dict[str, Any]:
    """Which set of vectors a stage was made of, and if it was trained here, how and on what."""
    corpus, settings = history.get("corpus"), history.get("parameters", {})
    return {
        "source": _source(made, history["method"]),
        "source_digest": source_digest(made)[:DIGITS],
        "method": history["method"],
        "dimension": made["facts"]["dimension"],
        "corpus_digest": corpus and corpus[:DIGITS],
        "lower_case": history.get("lower_case"),
        "training": {name: settings.get(name) for name in EmbeddingSettings.model_fields},
    }


def source_digest(made: Manifest) -> str:
    """Digest of the content of the set of vectors that a stage was made of."""
    source = made["inputs"]["source"]
    if isinstance(source, Mapping) and "subwords" in source:  # as of a list of its files
        files = [digest for digest in source.values() if digest is not None]
        source = files if len(files) > 1 else files[0]
    return source if isinstance(source, str) else digest_of(source)


def _source(made: Manifest, method: str) -> str:
    """The set's name; of a file that is called as those of all sets trained here, the folder's too,
    or where a stage has trained it, the method's alone."""
    name = str(made["facts"]["source"])
    if name != VECTORS:
        return name
    origin = next(each for each in made["made_from"] if each["input"] == "source")
    return "/".join(Path(origin["path"]).parts[-2:]) if "path" in origin else method
