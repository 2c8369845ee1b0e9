"""F1 and seconds of an epoch of `baseline` beside a plain implementation of the same model.

Usage: python -m benchmarks.studies.reference_f1 OUT.json [--dataset squad-v1.1-recovered]
       [--variant baseline] [--seed 0]

Three train in this process, one after the other, on the same questions with the same settings
(Adam, learning rate 0.001, products in float32, averaged weights): ours in batches of similar
lengths; ours from the initial weights that PyTorch draws by default; and
`benchmarks.common.references`, which has these, on packed sequences in batches in random order. All
answer the questions of dev, with spans only if no question of train is unanswerable. The intervals
of the differences resample the articles of dev. Memory is allocated as usual, not as in our
training processes: these keep freed memory, and packed sequences would then need more than 24 GB.

The answers are beside OUT.json as OUT-bidaflow.parquet and so on (see
`benchmarks.trainings.answers`). What is there already is not trained again, so that the program may
be interrupted between two trainings; it ends at once if files there come from other settings.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import nn

from benchmarks.common.machine import machine, print_result, today
from benchmarks.common.references import ReferenceBiDAF
from benchmarks.step import Data, chunks, load, seconds_of
from benchmarks.trainings.answers import read_facts, write_predictions
from models.arrays import FloatArray, IntArray
from models.batching import ResidentExamples
from models.bidaf import BiDAF
from models.configs.presets import preset
from models.configs.variant import TrainingConfig
from models.optim import AveragedWeights, make_optimizer
from models.predict import predict, span_nll
from models.span_decoding import Predictions, argmax_threshold
from models.trainer import Trainer
from tasks.evaluation.evaluate import EvaluationSplit, load_split
from tasks.evaluation.significance import bootstrap

DEVICE = torch.device("cpu")


class PlainTrainer:
    """Trains a reference on batches in random order, all of the same number of questions."""

    def __init__(self, model: ReferenceBiDAF, config: TrainingConfig, data: Data) -> None:
        self.model, self.config, self.data = model, config, data
        self.examples = ResidentExamples(data.train, data.types, model.max_characters, DEVICE)
        self.optimizer = make_optimizer(model, config)
        self.averages = AveragedWeights(model, config.ema_decay)
        self.random = np.random.default_rng(config.seed)
        self.steps = 0

    def train_epoch(self) -> None:
        """One pass over the trainable questions."""
        self.model.train()
        rows = self.random.permutation(self.data.train.trainable(self.config))
        for batch in chunks(rows, self.config.batch_size):
            self._step(batch)

    def _step(self, rows: IntArray) -> None:
        batch = self.examples.batch(rows)
        start, end = self.model(batch)
        loss = span_nll(start, end, batch.start, batch.end).mean()
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.optimizer.step()
        self.averages.update(self.steps)
        self.steps += 1

    def answers(self) -> Predictions:
        """The answers of the averaged weights to all questions of dev."""
        with self.averages.in_use():
            limit = self.config.max_answer_tokens
            # It has all of BiDAF that predict uses.
            model = cast(BiDAF, self.model)
            return predict(model, self.data.dev, self.data.types, limit)[0]


def ours(data: Data, variant: str, config: TrainingConfig) -> tuple[float, Predictions]:
    """Seconds of training, and the answers, of our implementation."""
    return train(BiDAF(preset(variant).model, data.vectors, data.characters), data, config)


def ours_from_default_weights(
    data: Data, variant: str, config: TrainingConfig
) -> tuple[float, Predictions]:
    """The same from the initial weights that PyTorch draws by default, as the reference has."""
    model = BiDAF(preset(variant).model, data.vectors, data.characters)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.LSTM):
            module.reset_parameters()
    return train(model, data, config)


def train(model: BiDAF, data: Data, config: TrainingConfig) -> tuple[float, Predictions]:
    """Seconds of training a model of ours, and its answers."""
    trainer = Trainer(model, config)
    seconds = seconds_of(lambda: trainer.train_epoch(data.train, data.types))
    return seconds, trainer.predict(data.dev, data.types)[0]


def reference(data: Data, variant: str, config: TrainingConfig) -> tuple[float, Predictions]:
    """Seconds of training, and the answers, of the plain implementation."""
    model = ReferenceBiDAF(preset(variant).model, data.vectors, data.characters, packed=True)
    trainer = PlainTrainer(model, config, data)
    return seconds_of(trainer.train_epoch), trainer.answers()


REFERENCE = "reference"
IMPLEMENTATIONS = {
    "bidaflow": ours,
    "bidaflow-default-weights": ours_from_default_weights,
    REFERENCE: reference,
}


@dataclass(frozen=True)
class Settings:
    """What all implementations are trained on, and how."""

    dataset: str
    variant: str
    config: TrainingConfig


@dataclass(frozen=True)
class Measured:
    """Scores of each question of dev (percent), (n,), and the facts of a training."""

    f1: FloatArray
    em: FloatArray
    facts: dict[str, Any]

    @property
    def summary(self) -> dict[str, Any]:
        """Mean scores, seconds of training, date and machine."""
        scores = {"f1": float(self.f1.mean()), "em": float(self.em.mean())}
        return scores | {name: self.facts[name] for name in ("seconds", "date", "machine")}


def write_measured(
    file: Path, name: str, data: Data, split: EvaluationSplit, settings: Settings
) -> None:
    """Train an implementation, and write its answers."""
    torch.manual_seed(settings.config.seed)
    seconds, predictions = IMPLEMENTATIONS[name](data, settings.variant, settings.config)
    facts = {"implementation": name, **asdict(settings), "seconds": seconds}
    facts |= {"date": today(), "machine": machine()}
    argmax = argmax_threshold(bool(data.train.impossible.any()))
    write_predictions(file, split, predictions, argmax, facts)


def read_measured(file: Path, split: EvaluationSplit, settings: Settings) -> Measured:
    """Read the answers of an implementation; ends the program if they are about other questions or
    come from other settings."""
    facts = read_facts(file)
    answers: Any = pq.read_table(file)
    wanted = asdict(settings)
    same = {name: facts.get(name) for name in wanted} == wanted
    if not same or answers["id"].to_pylist() != split.ids:
        sys.exit(
            f"{file} has answers to other questions, or of other settings. Give another OUT.json, "
            "or remove the file."
        )
    f1, em = (100.0 * answers[score].to_numpy().astype(np.float64) for score in ("f1", "em"))
    return Measured(f1, em, facts)


def measure(
    out: Path, data: Data, split: EvaluationSplit, settings: Settings
) -> dict[str, Measured]:
    """The scores of each implementation, which is trained unless its answers are beside `out`."""
    files = {name: out.with_name(f"{out.stem}-{name}.parquet") for name in IMPLEMENTATIONS}
    measured = {
        name: read_measured(file, split, settings) for name, file in files.items() if file.exists()
    }
    for name, file in files.items():
        if name not in measured:
            write_measured(file, name, data, split, settings)
            measured[name] = read_measured(file, split, settings)
        print(name, json.dumps(measured[name].summary), flush=True)
    return measured


def gain_over_reference(
    measured: Mapping[str, Measured], name: str, split: EvaluationSplit
) -> dict[str, Any]:
    """The gain of an implementation over the reference in F1, with its 95 % interval."""
    f1 = (measured[name].f1[None], measured[REFERENCE].f1[None])
    gain = bootstrap(*f1, split.article_of)
    return {"mean": gain.mean, "95_percent": [gain.low, gain.high]}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT.json")
    parser.add_argument("--dataset", default="squad-v1.1-recovered")
    parser.add_argument("--variant", default="baseline", choices=("baseline", "char"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    data = load(arguments.dataset)
    split = load_split(data.ingested_dev)
    config = replace(
        preset(arguments.variant).training,
        seed=arguments.seed,
        optimizer="adam",
        learning_rate=0.001,
    )
    settings = Settings(arguments.dataset, arguments.variant, config)
    measured = measure(arguments.out, data, split, settings)
    result = {
        "command": f"python -m benchmarks.studies.reference_f1 OUT.json --dataset "
        f"{arguments.dataset} --variant {arguments.variant} --seed {arguments.seed}",
        "threads": torch.get_num_threads(),
        "questions": {"train": len(data.train.trainable(config)), "dev": len(split)},
        "measured": {name: measured[name].summary for name in IMPLEMENTATIONS},
        "f1_gains": {
            name: gain_over_reference(measured, name, split)
            for name in IMPLEMENTATIONS
            if name != REFERENCE
        },
    }
    print_result(result, arguments.out)


if __name__ == "__main__":
    main()
