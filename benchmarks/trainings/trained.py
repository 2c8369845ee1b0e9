"""Finished trainings: folders of the stage `train`, and what tells one from another."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from infra.artifacts.manifest import MANIFEST, Facts, Manifest, digest_of, facts_of, read_manifest
from models.configs.variant import VariantConfig
from models.predict import predict
from models.span_decoding import Predictions, argmax_threshold
from tasks.data.negatives import SIGNS
from tasks.embeddings.formats.source import VECTORS
from tasks.embeddings.formats.store import history_of
from tasks.evaluation.evaluate import EvaluationSplit, evaluate, load_split
from tasks.inference.predictor import Predictor, with_vectors
from tasks.text.encoded import load_types, oov_words
from tasks.training.epoch_log import History
from tasks.training.inputs import SplitFolders
from tasks.training.run_params import source_name

# A saved model must reproduce the F1 on validation that its training logged, up to rounding.
LARGEST_F1_DIFFERENCE = 0.1
# Settings that change neither weights nor predictions, and the seed: a row has several.
NOT_OF_ROW = ("seed", "expected_no_answer")


@dataclass(frozen=True)
class Training:
    """What tells a training from others. Files of answers store its facts."""

    config: dict[str, Any]  # of its variant, as its release wrote it
    data: str  # a digest of what it was trained on
    inputs: dict[str, str]  # what it was trained on, in words

    @classmethod
    def from_facts(cls, facts: Facts) -> "Training":
        """The training whose `facts` these are; others may be among them."""
        return cls(facts["config"], facts["data"], facts["inputs"])

    @property
    def facts(self) -> dict[str, Any]:
        """Its fields as JSON values."""
        return vars(self)

    @property
    def variant(self) -> VariantConfig:
        """Its configuration; settings that its release did not have are at their defaults."""
        return VariantConfig.from_dict(self.config)

    @property
    def seed(self) -> int:
        """The seed of the training."""
        return self.variant.training.seed

    @property
    def epochs(self) -> int:
        """The epochs of its budget; early stopping may have ended it before."""
        return self.variant.training.epochs

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

    @property
    def file_name(self) -> str:
        """The name of the file with its answers, which does not depend on other trainings."""
        name = f"{self.variant.name}-{self.epochs}-epochs-{self.key[:6]}-seed-{self.seed}.parquet"
        return re.sub(r"[^\w.-]+", "-", name)


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
    def training(self) -> Training:
        """What tells it from others."""
        digests, train = self.manifest["inputs"]["data"], self.input("train", "ingested")
        language_model = digests.get("bilm")
        data = data_digest(
            digests["train"]["ingested"],
            digests["vocabulary"],
            digests["vectors"],
            digests.get("start_from"),
            language_model,
        )
        inputs = inputs_in_words(facts_of(train), self.input("vectors"), language_model)
        return Training(self.manifest["inputs"]["variant"], data, inputs)

    @property
    def allows_no_answer(self) -> bool:
        """Whether it was trained with unanswerable questions."""
        config = json.loads((self.folder / "model" / "config.json").read_text(encoding="utf-8"))
        return bool(config["allow_no_answer"])

    def input(self, *keys: str) -> Path:
        """The folder of one of its inputs, for example `input("dev", "ingested")`."""
        digest = self.manifest["inputs"]["data"]
        for key in keys:
            digest = digest and digest[key]
        if digest is None:
            sys.exit(f"{self.folder}: trained without {' '.join(keys)}, so it has no threshold.")
        origin = next(item for item in self.manifest["made_from"] if item["digest"] == digest)
        return self.folder.parents[1] / str(origin["stage"]) / str(origin["key"])

    def validation(self) -> tuple[EvaluationSplit, Predictions]:
        """The validation split, and the saved model's predictions for it; takes minutes.

        The program ends if they have another F1 than the training logged.
        """
        split = load_split(self.input("validation", "ingested"))
        predictions = self.predictions("validation")
        logged = self.history[self.facts["epoch"] - 1]["validation/f1"]
        argmax = argmax_threshold(self.allows_no_answer)
        actual = evaluate(split, predictions, argmax).scores.f1
        if abs(actual - logged) > LARGEST_F1_DIFFERENCE:
            sys.exit(
                f"{self.folder}: the saved model has F1 {actual:.2f} on validation, but its "
                f"training logged {logged:.2f}. Use the release that trained it."
            )
        return split, predictions

    def predictions(self, role: str, weights: Mapping[str, Tensor] | None = None) -> Predictions:
        """The saved model's predictions for a split, such as "validation"; with `weights`, by the
        names of parameters, in place of those saved."""
        predictor = Predictor.load(self.folder / "model")
        predictor.model.load_state_dict(weights or {}, strict=False)
        training = self.training.variant.training
        has_layers = self.manifest["inputs"]["data"][role].get("layers")
        split = SplitFolders(
            self.input(role, "ingested"),
            self.input(role, "encoded"),
            self.input(role, "layers") if has_layers else None,
        )
        model, vocabulary = predictor.model.eval(), self.input("vocabulary")
        if predictor.subwords is not None:
            composed = torch.from_numpy(predictor.subwords.vectors(oov_words(vocabulary)))
            model = with_vectors(model, torch.cat([model.words.word_vectors, composed]))
        predictions, _ = predict(
            model,
            split.examples(),
            load_types(vocabulary, compose_oov=predictor.subwords is not None),
            training.max_answer_tokens,
            training.window,
        )
        return predictions


def data_digest(
    train: str,
    vocabulary: str,
    vectors: str,
    start_from: str | None = None,
    language_model: str | None = None,
) -> str:
    """A digest of what a training was trained on, from the digests of its inputs."""
    return digest_of([train, vocabulary, vectors, start_from, language_model])


def inputs_in_words(
    train: Facts, vectors: Path, language_model: str | None = None
) -> dict[str, str]:
    """What a training was trained on, from the facts about its questions, the folder of its vectors
    and the digest of its language model."""
    method = history_of(vectors / VECTORS)["method"]
    return {
        "vectors": source_name(read_manifest(vectors), method),
        "questions": f"{train['questions']:,}",
        "negatives": _negatives(train),
        "language model": (language_model or "none")[:6],
    }


def _negatives(facts: Facts) -> str:
    """The negatives of a split, for example "2,400 paragraph"."""
    counts = {kind: facts.get(f"negatives_{kind}", 0) for kind in SIGNS}
    return " and ".join(f"{count:,} {kind}" for kind, count in counts.items() if count) or "none"
