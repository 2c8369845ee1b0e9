"""Finished trainings: folders of the stage `train`, and what tells one from another."""

import json
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from infra.artifacts.manifest import MANIFEST, Manifest, digest_of, facts_of, read_manifest
from models.configs.variant import VariantConfig
from tasks.embeddings.formats.source import VECTORS
from tasks.embeddings.formats.store import history_of
from tasks.training.epoch_log import History
from tasks.training.run_params import source_name

# Settings that change neither weights nor predictions, and the seed: a row has several.
NOT_OF_ROW = ("seed", "expected_no_answer")


@dataclass(frozen=True)
class Trained:
    """A finished training: the folder of its stage `train`."""

    folder: Path

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the stage. The program ends if the folder is no finished training."""
        if not (self.folder / MANIFEST).exists():
            sys.exit(
                f"{self.folder} is not a finished training. Give a folder ROOT/stages/train/…."
            )
        return read_manifest(self.folder)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts about the training."""
        facts: dict[str, Any] = self.manifest["facts"]
        return facts

    @cached_property
    def history(self) -> History:
        """The entries of its epochs."""
        history: History = json.loads((self.folder / "history.json").read_text(encoding="utf-8"))
        return history

    @cached_property
    def variant(self) -> VariantConfig:
        """Its configuration."""
        return VariantConfig.from_dict(self.manifest["inputs"]["variant"])

    @property
    def seed(self) -> int:
        """The seed of the training."""
        return self.variant.training.seed

    @property
    def epochs(self) -> int:
        """The epochs of its budget; early stopping may have ended it before."""
        return self.variant.training.epochs

    @cached_property
    def data(self) -> str:
        """A digest of what it was trained on."""
        digests = self.manifest["inputs"]["data"]
        names = ("vocabulary", "vectors", "start_from", "bilm")
        return digest_of([digests["train"]["ingested"], *map(digests.get, names)])

    @cached_property
    def inputs(self) -> dict[str, str]:
        """What it was trained on, in words."""
        train, vectors = facts_of(self.input("train", "ingested")), self.input("vectors")
        method = history_of(vectors / VECTORS)["method"]
        return {
            "vectors": source_name(read_manifest(vectors), method),
            "questions": f"{train['questions']:,}",
            "negatives": f"{train.get('negatives', 0):,}",
            "language model": (self.manifest["inputs"]["data"].get("bilm") or "none")[:6],
        }

    @property
    def settings(self) -> dict[str, str]:
        """All that distinguishes it from other trainings of its variant, but for seed and epochs:
        its settings, and what it was trained on."""
        config = self.variant.to_dict()
        kept = {k: v for k, v in config["training"].items() if k not in (*NOT_OF_ROW, "epochs")}
        return {name: str(value) for name, value in (config["model"] | kept | self.inputs).items()}

    @property
    def key(self) -> str:
        """A digest of all that the trainings of a row have in common."""
        return digest_of([self.variant.name, self.epochs, self.settings, self.data])

    def input(self, *keys: str) -> Path:
        """The folder of one of its inputs, for example `input("dev", "ingested")`."""
        digest = self.manifest["inputs"]["data"]
        for key in keys:
            digest = digest[key]
        origin = next(item for item in self.manifest["made_from"] if item["digest"] == digest)
        return self.folder.parents[1] / str(origin["stage"]) / str(origin["key"])
