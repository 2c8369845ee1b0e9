"""Finished trainings: folders of the stage `train`, and the rows of tables that compare them."""

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from infra.artifacts.manifest import MANIFEST, Facts, Manifest, digest_of, facts_of, read_manifest
from models.configs.variant import VariantConfig
from models.predict import predict
from models.span_decoding import Predictions, argmax_threshold
from tasks.data.negatives import SIGNS
from tasks.evaluation.evaluate import EvaluationSplit, evaluate, load_split
from tasks.inference.predictor import Predictor
from tasks.text.encoded import load_types
from tasks.training.inputs import SplitFolders

# A saved model must reproduce the F1 on validation that its training logged, up to rounding.
LARGEST_F1_DIFFERENCE = 0.1
# Settings that change neither weights nor predictions, and the seed: a row has several.
NOT_OF_ROW = ("seed", "checkpoint_minutes", "checkpoint_steps", "expected_no_answer")


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
    def variant(self) -> VariantConfig:
        """Its configuration; settings that its release did not have are at their defaults."""
        return VariantConfig.from_dict(self.manifest["inputs"]["variant"])

    @property
    def summary(self) -> dict[str, Any]:
        """Its configuration, facts and commit, for the files of results."""
        return {
            "config": self.variant.to_dict(),
            "facts": self.facts,
            "git": self.manifest["git"],
        }

    @property
    def seed(self) -> int:
        """The seed of the training."""
        return self.variant.training.seed

    @property
    def epochs(self) -> int:
        """The epochs of its budget; early stopping may have ended it before."""
        return self.variant.training.epochs

    @cached_property
    def settings(self) -> dict[str, str]:
        """All that distinguishes it from other trainings of its variant, but for seed and epochs:
        its settings, and what it was trained on."""
        config = self.variant.to_dict()
        kept = {k: v for k, v in config["training"].items() if k not in (*NOT_OF_ROW, "epochs")}
        train, vectors = facts_of(self.input("train", "ingested")), facts_of(self.input("vectors"))
        return {
            **{name: str(value) for name, value in (config["model"] | kept).items()},
            "vectors": str(vectors["source"]),
            "questions": f"{train['questions']:,}",
            "negatives": _negatives(train),
        }

    @property
    def key(self) -> str:
        """A digest of all that the trainings of a row have in common."""
        return digest_of([self.variant.name, self.epochs, self.settings, self.data])

    @property
    def file_name(self) -> str:
        """The name of the file with its answers, which does not depend on other trainings."""
        name = f"{self.variant.name}-{self.epochs}-epochs-{self.key[:6]}-seed-{self.seed}.parquet"
        return re.sub(r"[^\w.-]+", "-", name)

    @cached_property
    def data(self) -> str:
        """A digest of the data that it was trained on."""
        digests = self.manifest["inputs"]["data"]
        return digest_of(
            [
                digests["train"]["ingested"],
                digests["vectors"],
                digests.get("start_from"),
                digests.get("bilm"),
            ]
        )

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
        predictions = self.validation_predictions()
        history = json.loads((self.folder / "history.json").read_text(encoding="utf-8"))
        logged = history[self.facts["epoch"] - 1]["validation/f1"]
        argmax = argmax_threshold(self.allows_no_answer)
        actual = evaluate(split, predictions, argmax).scores.f1
        if abs(actual - logged) > LARGEST_F1_DIFFERENCE:
            sys.exit(
                f"{self.folder}: the saved model has F1 {actual:.2f} on validation, but its "
                f"training logged {logged:.2f}. Use the release that trained it."
            )
        return split, predictions

    def validation_predictions(self) -> Predictions:
        """The saved model's predictions for the validation split."""
        predictor = Predictor.load(self.folder / "model")
        training = self.variant.training
        has_layers = self.manifest["inputs"]["data"]["validation"].get("layers")
        split = SplitFolders(
            self.input("validation", "ingested"),
            self.input("validation", "encoded"),
            self.input("validation", "layers") if has_layers else None,
        )
        predictions, _ = predict(
            predictor.model.eval(),
            split.examples(),
            load_types(self.input("vocabulary")),
            training.max_answer_tokens,
            training.window,
        )
        return predictions


def _negatives(facts: Facts) -> str:
    """The negatives of a split, for example "2,400 paragraph"."""
    counts = {kind: facts.get(f"negatives_{kind}", 0) for kind in SIGNS}
    return " and ".join(f"{count:,} {kind}" for kind, count in counts.items() if count) or "none"


@dataclass(frozen=True)
class Row:
    """Trainings that differ only in their seeds, in ascending order."""

    trainings: list[Trained]
    settings: str  # in which it differs from other rows of its variant; may be empty

    @property
    def variant(self) -> str:
        """The name of its variant."""
        return self.trainings[0].variant.name

    @property
    def epochs(self) -> int:
        """The number of epochs of its budget."""
        return self.trainings[0].epochs

    @property
    def title(self) -> str:
        """Variant, settings and epochs."""
        return ", ".join(filter(None, (self.variant, self.settings, f"{self.epochs} epochs")))


def rows_of(trainings: Sequence[Trained]) -> list[Row]:
    """The rows of a table, in the order of their first trainings. A row's trainings differ only in
    their seeds; the program ends if two have the same one."""
    groups: dict[str, list[Trained]] = {}
    for trained in trainings:
        groups.setdefault(trained.key, []).append(trained)
    rows = [Row(sorted(group, key=lambda t: t.seed), "") for group in groups.values()]
    rows = [replace(row, settings=_settings_of(row, rows)) for row in rows]
    titles = Counter(row.title for row in rows)
    rows = [_with_data(row) if titles[row.title] > 1 else row for row in rows]
    for row in rows:
        for first, second in pairwise(row.trainings):
            if first.seed == second.seed:
                sys.exit(
                    f"{first.folder} and {second.folder} are both {row.title}, seed {first.seed}. "
                    "Give one of them only."
                )
    return rows


def _settings_of(row: Row, rows: Sequence[Row]) -> str:
    """The settings in which a row differs from other rows of its variant."""
    all_settings = [r.trainings[0].settings for r in rows if r.variant == row.variant]
    own = row.trainings[0].settings
    differing = [name for name in own if len({other[name] for other in all_settings}) > 1]
    return ", ".join(f"{name} {own[name]}" for name in differing)


def _with_data(row: Row) -> Row:
    data = f"data {row.trainings[0].data[:6]}"
    return replace(row, settings=", ".join(filter(None, (row.settings, data))))
