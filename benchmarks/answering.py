"""Time that a trained model takes from text to answer.

Usage: python -m benchmarks.answering MODEL_FOLDER SPLIT_FOLDER [--threads 2] [--out FILE.json]

MODEL_FOLDER is the `model` folder of a `train` stage, SPLIT_FOLDER an ingested split. The program
times single questions whose contexts have close to 130 tokens, one after the other, and batches of
128 questions drawn from the split. The times include tokenisation, vocabulary lookup, the language
model of a variant with contextual vectors, the model and the search for the best span.
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common.machine import machine, print_result, today, use_worker_allocator
from tasks.evaluation.evaluate import EvaluationSplit, load_split
from tasks.inference.predictor import Predictor
from tasks.text.tokenizer import tokenize

CONTEXT_TOKENS, SINGLES, BATCH, BATCHES = 130, 200, 128, 8

Pair = tuple[str, str]


def pairs_of(split: EvaluationSplit, rows: Sequence[int]) -> list[Pair]:
    """The questions of the given rows, with their contexts."""
    return [(split.questions[row], split.contexts[split.context_of[row]]) for row in rows]


def single_questions(split: EvaluationSplit) -> list[Pair]:
    """The SINGLES questions whose contexts are closest to CONTEXT_TOKENS tokens long."""
    lengths = np.array([len(tokenize(context)) for context in split.contexts])
    distances = np.abs(lengths[np.asarray(split.context_of)] - CONTEXT_TOKENS)
    return pairs_of(split, np.argsort(distances, kind="stable")[:SINGLES].tolist())


def batches(split: EvaluationSplit) -> list[list[Pair]]:
    """Batches of questions drawn at random."""
    order = np.random.default_rng(0).permutation(len(split))[: BATCHES * BATCH].tolist()
    return [pairs_of(split, order[i : i + BATCH]) for i in range(0, len(order), BATCH)]


def call_seconds(predictor: Predictor, calls: Sequence[list[Pair]]) -> list[float]:
    """Seconds of each call, after a first call that does not count."""
    predictor.answer(calls[0])
    seconds = []
    for pairs in calls:
        began = time.perf_counter()
        predictor.answer(pairs)
        seconds.append(time.perf_counter() - began)
    return seconds


def measure(model: Path, folder: Path) -> dict[str, float]:
    """Milliseconds per single question, and questions per second in batches."""
    predictor, split = Predictor.load(model), load_split(folder)
    single_seconds = call_seconds(predictor, [[pair] for pair in single_questions(split)])
    batched = batches(split)
    batch_seconds = call_seconds(predictor, batched)
    return {
        "one_question_ms_median": 1000 * statistics.median(single_seconds),
        "one_question_ms_95_percent": 1000 * float(np.quantile(single_seconds, 0.95)),
        "answers_per_second": sum(map(len, batched)) / sum(batch_seconds),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="`model` folder of a `train` stage")
    parser.add_argument("split", type=Path, help="folder of an ingested split")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch (default: 2)")
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    arguments = parser.parse_args()
    use_worker_allocator()
    torch.set_num_threads(arguments.threads)
    result: dict[str, Any] = {
        "command": "python -m benchmarks.answering MODEL_FOLDER SPLIT_FOLDER "
        f"--threads {arguments.threads}",
        "date": today(),
        "machine": machine(),
        "measured": measure(arguments.model, arguments.split),
    }
    variant = json.loads((arguments.model / "config.json").read_text(encoding="utf-8"))["variant"]
    result["model"] = {"name": variant["name"], "hidden_size": variant["model"]["hidden_size"]}
    print_result(result, arguments.out)


if __name__ == "__main__":
    main()
