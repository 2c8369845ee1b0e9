"""What a training was asked for, as MLflow's parameters: of the same names in every run.

The stage `train` is told contents, not settings: those stand in the manifests of the stages before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from models.config import CharacterConfig, VariantConfig
from tasks.cluster import Resources
from tasks.embeddings.parameters import EmbeddingSettings
from tasks.manifests import Manifest, digest_of, read_manifest, stages_folder
from tasks.training_data import TrainingData
from tasks.vectors import VECTORS, History, history_of

DIGITS = 12
"""Of a digest that people compare."""


def run_parameters(
    dataset: str, variant: VariantConfig, data: TrainingData, resources: Resources
) -> dict[str, Any]:
    """All parameters of a run, nested; what does not apply to it is None.

    Resources are those that were asked for: what a cluster has may change while a run lasts.
    """
    config = variant.to_dict()
    characters = config["model"]["characters"]
    return {
        "variant": variant.name,
        "dataset": dataset,
        **config["model"],
        "characters": characters or dict.fromkeys(f.name for f in fields(CharacterConfig)),
        **config["training"],
        "start_from": None if data.start_from is None else _model(read_manifest(data.start_from)),
        "data": _data(read_manifest(data.train.ingested)),
        "vocabulary": read_manifest(data.vocabulary)["inputs"]["parameters"],
        "vectors": vector_parameters(
            read_manifest(data.vectors), history_of(data.vectors / VECTORS)
        ),
        "resources": resources.model_dump(),
    }


def _model(fetched: Manifest) -> str:
    """The model that a training starts from: as MLflow names it, or the folder that it was in."""
    source = fetched["inputs"]["source"]
    if isinstance(source, str):
        return f"models:/{source}"
    origin = fetched["made_from"][0]
    return str(Path(origin["path"]).parent) if "path" in origin else _stage(origin)


def _stage(origin: Mapping[str, Any]) -> str:
    return f"{origin['stage']}/{origin['key']}"


def _data(train: Manifest) -> dict[str, Any]:
    """How the split that is trained on was made."""
    inputs, apart = train["inputs"], train["inputs"]["apart"]
    ingested = next(each for each in train["made_from"] if each["input"] == "portions")
    of_file = read_manifest(stages_folder() / _stage(ingested))["inputs"]
    return {
        "seed": inputs["shares"]["seed"],
        "validation_share": inputs["shares"]["validation"],
        "dev_share": inputs["shares"]["dev"],
        "overlap": apart["overlap"] if apart["scored"] else None,
        "mix": _mix(inputs["mixed"]),
        "negatives": inputs["negatives"],
        "repair": of_file["repair"],
        "max_rejected": of_file["max_rejected"],
    }


def _mix(mixed: Sequence[Mapping[str, Any]]) -> str | None:
    return ", ".join(f"{each['name']} × {each['weight']:g}" for each in mixed) or None


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
    return source if isinstance(source, str) else digest_of(source)


def _source(made: Manifest, method: str) -> str:
    """The set's name; of a file that is called as those of all sets trained here, the folder's too,
    or where a stage has trained it, the method's alone."""
    name = str(made["facts"]["source"])
    if name != VECTORS:
        return name
    origin = next(each for each in made["made_from"] if each["input"] == "source")
    return "/".join(Path(origin["path"]).parts[-2:]) if "path" in origin else method
