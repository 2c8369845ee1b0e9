"""Runs without training: an untrained model together with handwritten predictions."""

from pathlib import Path

import torch

from models.bidaf import BiDAF
from tasks.embeddings.formats.store import load_word_vectors
from tasks.evaluation.evaluate import load_split
from tasks.inference.model_folder import TrainedModel, save_model
from tasks.text.vocabulary import Lexicon
from tests.factories.models import small
from tests.factories.splits import ingest, predict_spans
from tests.factories.vectors import write_lines
from tests.factories.vocabularies import write_vocabulary


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
    corpus = ingest(folder / "corpus", (" ".join(words), ["Who?"]))
    counts = {"min_count": 1, "min_character_count": 1}
    selected, vocabulary = write_vocabulary(folder, [corpus], source, **counts)
    vectors = torch.from_numpy(load_word_vectors(vocabulary, selected))
    torch.manual_seed(0)
    variant = small(name)
    characters = len(Lexicon.load(vocabulary).character_indices) + 2
    weights = BiDAF(variant.model, vectors, characters).state_dict()
    trained = TrainedModel(variant, True, weights, vectors, vocabulary)
    save_model(folder / "model", trained)
    predict_spans(folder, load_split(split), spans)
    return folder
