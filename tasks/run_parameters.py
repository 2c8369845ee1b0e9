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
from tasks.vectors import VECTORS, history_of

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
        "vectors": _vectors(data.vectors),
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


def _vectors(folder: Path) -> dict[str, Any]:
    """Which set the vectors are from, and if it was trained here, how."""
    manifest, history = read_manifest(folder), history_of(folder / VECTORS)
    source = manifest["inputs"]["source"]
    settings = history.get("parameters", {})
    return {
        "source": _source(manifest, history["method"]),
        "source_digest": (source if isinstance(source, str) else digest_of(source))[:DIGITS],
        "method": history["method"],
        "dimension": manifest["facts"]["dimension"],
        "training": {name: settings.get(name) for name in EmbeddingSettings.model_fields},
    }


def _source(selected: Manifest, method: str) -> str:
    """The set's name; of a file that is called as those of all sets trained here, the folder's too,
    or where a stage has trained it, the method's alone."""
    name = str(selected["facts"]["source"])
    if name != VECTORS:
        return name
    origin = next(each for each in selected["made_from"] if each["input"] == "source")
    return "/".join(Path(origin["path"]).parts[-2:]) if "path" in origin else method
