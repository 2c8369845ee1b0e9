"""Runs without training: an untrained model together with handwritten predictions."""

from pathlib import Path

import numpy as np
import torch

from models.bidaf import BiDAF
from models.span_decoding import Predictions
from tasks.embeddings.formats.select import select_vectors
from tasks.embeddings.formats.store import load_word_vectors
from tasks.evaluation.evaluate import evaluate, load_split, write_predictions
from tasks.inference.model_folder import TrainedModel, save_model
from tasks.text.build_vocabulary import VocabularyConfig, build_vocabulary
from tasks.text.vocabulary import Lexicon
from tests.factories.models import small
from tests.factories.splits import ingest
from tests.factories.vectors import write_lines


def untrained_run(
    folder: Path, split: Path, spans: list[tuple[int, int]], name: str, words: list[str]
) -> Path:
    """Write a run as the stage `train` does: model/ and predictions.parquet. Returns the folder.

    `spans` are the predicted token spans, in order of rising confidence; `words` are the words
    that have vectors.
    """
    folder.mkdir()
    rows = [f"{word} {i / 9:.3f} 0.5 -0.5" for i, word in enumerate(words)]
    source = write_lines(folder / "vectors.txt", *rows)
    for part in ("vectors", "vocabulary"):
        (folder / part).mkdir()
    select_vectors(folder / "vectors", source, words, 0)
    parameters = VocabularyConfig(min_count=1, min_character_count=1)
    corpus = ingest(folder / "corpus", (" ".join(words), ["Who?"]))
    build_vocabulary(folder / "vocabulary", corpus, [], folder / "vectors", parameters)
    vectors = torch.from_numpy(load_word_vectors(folder / "vocabulary", folder / "vectors"))
    torch.manual_seed(0)
    variant = small(name)
    characters = len(Lexicon.load(folder / "vocabulary").character_indices) + 2
    weights = BiDAF(variant.model, vectors, characters).state_dict()
    trained = TrainedModel(variant, True, weights, vectors, folder / "vocabulary")
    save_model(folder / "model", trained)
    start, end = np.array(spans).T
    scores = np.linspace(-2, -0.1, len(spans))
    answers = Predictions(start, end, scores, scores - 1.0)
    loaded = load_split(split)
    write_predictions(folder / "predictions.parquet", loaded, evaluate(loaded, answers))
    return folder
