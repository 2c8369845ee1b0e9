"""What a model knows of unseen text, by the number of words kept from the start of its vectors.

Usage: python -m benchmarks.known_words TRAIN.json UNSEEN.json… [--trained MODEL] [--out FILE.json]

A model knows the words of TRAIN and the first ones of GloVe 6B 50d. `tokens_with_vector` is the
share of unseen tokens that have a vector, `questions_missing_words` that of questions of which a
word, in question or context, has a vector in the whole set but not in the model. Times are CPU
seconds, so that other programs change them little: those of the fastest of three calls. With
`--trained`, the model folder of a training on TRAIN, the program also evaluates its weights with
these words.
"""

import argparse
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.common.arguments import existing_file
from benchmarks.common.machine import machine, print_result, today
from models.bidaf import BiDAF
from models.configs.presets import preset
from models.squad_metrics import mean_scores
from tasks.data.ingest import ingest_file
from tasks.embeddings.formats.select import packaged_words, vectors_for_splits
from tasks.embeddings.formats.source import PACKAGED
from tasks.embeddings.formats.store import load_word_vectors
from tasks.evaluation.evaluate import load_split
from tasks.inference.model_folder import VECTORS, TrainedModel, save_model
from tasks.inference.predictor import Predictor
from tasks.inference.score_model import answer_split
from tasks.text.build_vocabulary import VocabularyConfig, build_vocabulary, vector_rows
from tasks.text.split_texts import form_counts, read_texts
from tasks.text.vocabulary import Lexicon, is_known


def folder(path: Path) -> Path:
    """The new folder."""
    path.mkdir()
    return path


def fastest(call: Callable[[], object]) -> float:
    """CPU seconds of the fastest of three calls."""
    times = [time.process_time()]
    for _ in range(3):
        call()
        times.append(time.process_time())
    return round(float(np.diff(times).min()), 2)


def known_shares(split: Path, rows: Mapping[str, int], whole: frozenset[str]) -> dict[str, float]:
    """The shares of a split's tokens and questions (see above) for these words with vectors."""
    counts = form_counts([split])
    unknown = {form for form in counts if not is_known(form, rows, lower_case=True)}
    missing = {form for form in unknown if is_known(form, whole, lower_case=True)}
    contexts, questions = (
        np.array([not missing.isdisjoint(tokens) for _, tokens in read_texts(split / file)])
        for file in ("contexts.parquet", "questions.parquet")
    )
    in_context = contexts[load_split(split).context_of]
    without_vector = sum(counts[form] for form in unknown) / sum(counts.values())
    return {
        "tokens_with_vector": round(1 - without_vector, 4),
        "questions_missing_words": round(float((questions | in_context).mean()), 4),
    }


def save_untrained(vocabulary: Path, vectors: Path, model: Path) -> dict[str, float]:
    """Save an untrained model; returns its words, megabytes and CPU seconds to load."""
    matrix, variant = torch.from_numpy(load_word_vectors(vocabulary, vectors)), preset("char")
    characters = len(Lexicon.load(vocabulary).character_indices) + 2
    weights = BiDAF(variant.model, matrix, characters).state_dict()
    save_model(model, TrainedModel(variant, False, weights, matrix, vocabulary))
    return {
        "words": len(matrix),
        "float32_mb": round(matrix.numel() * 4 / 1e6, 1),
        "stored_mb": round((model / VECTORS).stat().st_size / 1e6, 1),
        "load_seconds": fastest(lambda: Predictor.load(model)),
        "load_words_seconds": fastest(lambda: Lexicon.load(model)),
    }


def f1_with(model: Path, trained: Path, split: Path) -> float:
    """F1 on a split of a trained model's weights, with the words and vectors of `model`."""
    for name in ("config.json", "weights.safetensors"):
        shutil.copyfile(trained / name, model / name)
    scores = answer_split(Predictor.load(model), load_split(split))[1]
    return round(mean_scores(scores).f1, 2)


def measure(arguments: argparse.Namespace, root: Path) -> list[dict[str, Any]]:
    """The measurements for each number of first words."""
    train, *unseen = (folder(root / f.name) for f in (arguments.train, *arguments.unseen))
    for file, split in zip((arguments.train, *arguments.unseen), (train, *unseen), strict=True):
        ingest_file(split, file)
    results: list[dict[str, Any]] = []
    for first in arguments.first:
        names = ("vectors", "vocabulary", "model")
        vectors, vocabulary, model = (root / f"{name}-{first}" for name in names)
        vectors_for_splits(folder(vectors), PACKAGED, [train], True, first)
        parameters = VocabularyConfig(pretrained_words=first)
        build_vocabulary(folder(vocabulary), train, [], vectors, parameters)
        rows, facts = vector_rows(vectors), save_untrained(vocabulary, vectors, model)
        shares = {split.name: known_shares(split, rows, packaged_words()) for split in unseen}
        if arguments.trained:
            for split in unseen:
                shares[split.name]["f1"] = f1_with(model, arguments.trained, split)
        results.append({"first_words": first, **facts, **shares})
        print(results[-1], flush=True)
    return results


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=existing_file, help="SQuAD-format file of a training")
    parser.add_argument("unseen", type=existing_file, nargs="+", help="files of other questions")
    parser.add_argument("--trained", type=Path, help="model folder of a training on the first file")
    firsts = [0, 50_000, 100_000, 200_000, 400_000]
    parser.add_argument("--first", type=int, nargs="+", default=firsts, help="numbers of words")
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    arguments = parser.parse_args()
    names = " ".join(file.name for file in (arguments.train, *arguments.unseen))
    trained = " --trained MODEL" if arguments.trained else ""
    torch.set_num_threads(1)  # waiting threads would count as CPU time
    with TemporaryDirectory() as root:
        result = {
            "command": f"python -m benchmarks.known_words {names}{trained}",
            "date": today(),
            "machine": machine(),
            "rows": measure(arguments, Path(root)),
        }
    print_result(result, arguments.out)


if __name__ == "__main__":
    main()
