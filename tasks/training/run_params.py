"""The settings of a training as MLflow parameters, with the same names in every run.

The stage `train` depends on the content of its inputs, not on the settings that produced them.
Those settings are read from the manifests of the earlier stages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from infra.artifacts.manifest import Manifest, read_manifest, stages_folder
from infra.artifacts.remote import find_manifest
from infra.cluster.allotment import Resources
from models.configs.variant import CharacterConfig, ContextualConfig, VariantConfig
from tasks.embeddings.formats.source import BILM, VECTORS
from tasks.embeddings.formats.store import History, history_of, set_digest
from tasks.embeddings.training.config import EmbeddingParameters
from tasks.training.inputs import TrainingData

# The parameters about the language model of contextual vectors.
LANGUAGE_MODEL = ("source", "source_digest", "dimension", "corpus_digest", "lower_case")


def run_parameters(
    dataset: str, variant: VariantConfig, data: TrainingData, resources: Resources
) -> dict[str, Any]:
    """All parameters of a run, nested; those that do not apply to it are None.

    Resources are the requested ones, because those of the cluster may change during a run.
    """
    config = variant.to_dict()
    characters = config["model"]["characters"]
    return {
        "variant": variant.name,
        "dataset": dataset,
        **config["model"],
        "characters": characters or dict.fromkeys(f.name for f in fields(CharacterConfig)),
        "contextual": _contextual(config["model"]["contextual"], data.bilm),
        **config["training"],
        "start_from": None if data.start_from is None else _model(read_manifest(data.start_from)),
        "data": _data(read_manifest(data.train.ingested)),
        "vocabulary": read_manifest(data.vocabulary)["inputs"]["parameters"],
        "vectors": vector_parameters(
            read_manifest(data.vectors), history_of(data.vectors / VECTORS)
        ),
        "resources": resources.params,
    }


def _contextual(config: Mapping[str, Any] | None, bilm: Path | None) -> dict[str, Any]:
    """The settings of the contextual vectors, and the language model that they come from."""
    if config is None or bilm is None:
        names = [f.name for f in fields(ContextualConfig)]
        return dict.fromkeys([*names, *LANGUAGE_MODEL])
    selected = read_manifest(bilm)
    facts, corpus = selected["facts"], selected["facts"]["history"].get("corpus")
    values = (
        source_name(selected, facts["history"]["method"]),
        source_digest(selected)[:DIGITS],
        facts["dimension"],
        corpus and corpus[:DIGITS],
        facts["history"]["lower_case"],
    )
    return {**config, **dict(zip(LANGUAGE_MODEL, values, strict=True))}


def _model(fetched: Manifest) -> str:
    """The model of a warm start: its MLflow URI, or the folder or stage that it came from."""
    source = fetched["inputs"]["source"]
    if isinstance(source, str):
        return f"models:/{source}"
    origin = fetched["made_from"][0]
    return str(Path(origin["path"]).parent) if "path" in origin else _stage(origin)


def _stage(origin: Mapping[str, Any]) -> str:
    return f"{origin['stage']}/{origin['key']}"


def _data(train: Manifest) -> dict[str, Any]:
    inputs, apart = train["inputs"], train["inputs"]["apart"]
    ingested = next(origin for origin in train["made_from"] if origin["input"] == "portions")
    # An earlier run with equal content may have made the split, and its ingestion may be gone.
    ingestion = find_manifest(stages_folder() / _stage(ingested))
    settings = ingestion["inputs"] if ingestion else {}
    return {
        "seed": inputs["shares"]["seed"],
        "validation_share": inputs["shares"]["validation"],
        "dev_share": inputs["shares"]["dev"],
        "overlap": apart["overlap"] if apart["scored"] else None,
        "mix": _mix(inputs["portions"]),
        "negatives": inputs["negatives"],
        **{name: settings[name] for name in ("repair", "max_rejected") if name in settings},
    }


def _mix(portions: Sequence[Mapping[str, Any]]) -> str | None:
    return ", ".join(f"{p['name']} × {p['weight']:g}" for p in portions if not p["divided"]) or None


# Length of digests that people compare.
DIGITS = 12


def vector_parameters(manifest: Manifest, history: History) -> dict[str, Any]:
    """The set of vectors that a stage's output was selected from, and how it was made.

    Joined sets also have their names (`parts`), and for each of them what is known of it: `part_1`
    and so on.
    """
    parts = history.get("parts", [])
    return {
        "source": source_name(manifest, history["method"]),
        "source_digest": source_digest(manifest)[:DIGITS],
        "dimension": manifest["facts"]["dimension"],
        **making_of(history),
        "parts": ", ".join(part["source"] for part in parts) or None,
        **{f"part_{number}": _part(part) for number, part in enumerate(parts, 1)},
    }


def _part(history: History) -> dict[str, Any]:
    """The parameters of one of several joined sets, without those that do not apply to it."""
    parameters = {
        "source": history["source"],
        "source_digest": history["digest"][:DIGITS],
        "dimension": history["dimension"],
        **making_of(history),
    }
    training = {n: value for n, value in parameters.pop("training").items() if value is not None}
    return {n: v for n, v in parameters.items() if v is not None} | {"training": training}


def making_of(history: History) -> dict[str, Any]:
    """How a set was made: of a set that this pipeline trained, its method, settings and corpus, and
    the set that the training started from (`start`)."""
    settings = history.get("parameters", {})
    digests = {
        f"{name}_digest": digest and digest[:DIGITS]
        for name in ("start", "corpus")
        for digest in [history.get(name)]
    }
    return {
        "method": history["method"],
        "start": history.get("start_name"),
        **digests,
        "lower_case": history.get("lower_case"),
        "training": {
            name: settings.get(name)
            for name in EmbeddingParameters.model_fields
            if name not in ("method", "elmo")
        },
    }


def source_digest(manifest: Manifest) -> str:
    """Digest of the content of the set of vectors that was a stage's input."""
    return set_digest(manifest["inputs"]["source"])


def source_name(manifest: Manifest, method: str) -> str:
    """The set's file name; for those that all sets of this pipeline share, the folder's name too,
    or only the method if a stage trained it."""
    name = str(manifest["facts"]["source"])
    if name not in (VECTORS, BILM):
        return name
    origin = next(parent for parent in manifest["made_from"] if parent["input"] == "source")
    return "/".join(Path(origin["path"]).parts[-2:]) if "path" in origin else method
