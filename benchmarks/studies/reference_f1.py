"""F1 and seconds of an epoch of `baseline` beside a plain implementation of the same model.

Usage: python -m benchmarks.studies.reference_f1 [--dataset squad-v1.1-recovered]
       [--variant baseline] [--seed 0] [--out FILE.json]

Both train in this process, one after the other, on the same questions with the same settings (Adam,
learning rate 0.001, products in float32, averaged weights): ours in batches of similar lengths, and
`benchmarks.common.references` on packed sequences in batches in random order. Both answer all
questions of dev, with spans only if no question of train is unanswerable. The interval of the
difference resamples the questions of dev. Memory is allocated as usual, not as in our training
processes: these keep freed memory, and packed sequences would then need more than 24 GB. With
--out, the answers of both are beside FILE.json, as FILE-bidaflow.parquet and
FILE-reference.parquet (see `benchmarks.trainings.answers`).
"""

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from benchmarks.common.machine import machine, print_result, today
from benchmarks.common.references import ReferenceBiDAF
from benchmarks.step import Data, chunks, load, seconds_of
from benchmarks.trainings.answers import write_predictions
from models.arrays import FloatArray, IntArray
from models.batching import ResidentExamples
from models.bidaf import BiDAF
from models.configs.presets import preset
from models.configs.variant import TrainingConfig
from models.optim import AveragedWeights, make_optimizer
from models.predict import predict, span_nll
from models.span_decoding import Predictions, argmax_threshold
from models.trainer import Trainer
from tasks.evaluation.evaluate import EvaluationSplit, evaluate, load_split
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
    model = BiDAF(preset(variant).model, data.vectors, data.characters)
    trainer = Trainer(model, config)
    seconds = seconds_of(lambda: trainer.train_epoch(data.train, data.types))
    return seconds, trainer.predict(data.dev, data.types)[0]


def reference(data: Data, variant: str, config: TrainingConfig) -> tuple[float, Predictions]:
    """Seconds of training, and the answers, of the plain implementation."""
    model = ReferenceBiDAF(preset(variant).model, data.vectors, data.characters, packed=True)
    trainer = PlainTrainer(model, config, data)
    return seconds_of(trainer.train_epoch), trainer.answers()


def question_scores(
    split: EvaluationSplit, predictions: Predictions, argmax: float
) -> tuple[FloatArray, float]:
    """F1 of each question, and EM of all, percent."""
    evaluation = evaluate(split, predictions, argmax)
    f1 = np.array([100.0 * question.f1 for question in evaluation.questions])
    return f1, evaluation.scores.em


def measure(
    data: Data, split: EvaluationSplit, variant: str, config: TrainingConfig, out: Path | None
) -> Any:
    """Scores and seconds of both, and the gain of ours in F1; writes the answers beside `out`."""
    measured: dict[str, Any] = {}
    f1: dict[str, FloatArray] = {}
    facts: dict[str, Any]
    argmax = argmax_threshold(bool(data.train.impossible.any()))
    for name, train in (("bidaflow", ours), ("reference", reference)):
        torch.manual_seed(config.seed)
        seconds, predictions = train(data, variant, config)
        f1[name], em = question_scores(split, predictions, argmax)
        measured[name] = {"f1": float(f1[name].mean()), "em": em, "seconds": seconds}
        print(name, measured[name], flush=True)
        if out:
            facts = {"implementation": name, "variant": variant, "seconds": seconds}
            facts |= {"date": today(), "machine": machine(), "config": asdict(config)}
            file = out.with_name(f"{out.stem}-{name}.parquet")
            write_predictions(file, split, predictions, argmax, facts)
    gain = bootstrap(f1["bidaflow"][None], f1["reference"][None])
    return {
        **measured,
        "f1_gain": gain.mean,
        "f1_gain_95_percent": [gain.low, gain.high],
        "times_as_fast": measured["reference"]["seconds"] / measured["bidaflow"]["seconds"],
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="squad-v1.1-recovered")
    parser.add_argument("--variant", default="baseline", choices=("baseline", "char"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    arguments = parser.parse_args()
    data = load(arguments.dataset)
    split = load_split(data.ingested_dev)
    config = replace(
        preset(arguments.variant).training,
        seed=arguments.seed,
        optimizer="adam",
        learning_rate=0.001,
    )
    result = {
        "command": f"python -m benchmarks.studies.reference_f1 --dataset {arguments.dataset} "
        f"--variant {arguments.variant} --seed {arguments.seed}",
        "date": today(),
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "questions": {"train": len(data.train.trainable(config)), "dev": len(split)},
        "measured": measure(data, split, arguments.variant, config, arguments.out),
    }
    print_result(result, arguments.out)


if __name__ == "__main__":
    main()
