"""A small untrained model to log to MLflow and to serve."""

import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from models.bidaf import BiDAF
from models.configs.variant import (
    CharacterConfig,
    ContextualConfig,
    ModelConfig,
    VariantConfig,
)
from tasks.embeddings.contextual.frozen_bilm import layers_shape
from tasks.embeddings.formats.store import load_word_vectors
from tasks.inference.model_folder import TrainedModel, save_model
from tasks.text.vocabulary import Lexicon
from tasks.tracking.registry import TRAINED_CONTEXTS
from tests.factories.splits import ingest
from tests.factories.vectors import write_lines
from tests.factories.vocabularies import write_vocabulary

CONTEXT = "The mill stands on the hill. The inn stands by the river."
MODEL_INPUT = [
    {"question": "Where does the mill stand?", "context": CONTEXT},
    {"question": "Where is the inn?", "context": CONTEXT},
]


def wait_for(url: str, process: subprocess.Popen[bytes], seconds: float = 600) -> None:
    """Wait until the server answers.

    Raises:
        AssertionError: the server exits, or does not answer in time.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=60).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"no response from {url}")


def save_untrained_model(
    root: Path, bilm: Path | None = None, self_attention: Literal["none", "dot"] = "none"
) -> Path:
    """Save a small untrained model below `root`, with contextual vectors of a language model if
    there is one; returns its folder."""
    split = ingest(root / "split", (CONTEXT, [row["question"] for row in MODEL_INPUT]))
    rows = [f"{word} {i / 9:.3f} 0.5 -0.5" for i, word in enumerate(CONTEXT.lower().split())]
    source = write_lines(root / "vectors.txt", *{row.split()[0]: row for row in rows}.values())
    counts = {"min_count": 1, "min_character_count": 1}
    selected, vocabulary = write_vocabulary(root, [split], source, **counts)
    vectors = torch.from_numpy(load_word_vectors(vocabulary, selected))
    torch.manual_seed(0)
    contextual = ContextualConfig(where="both") if bilm else None
    config = ModelConfig(
        hidden_size=4,
        characters=CharacterConfig(3, (3,), (4,), 6),
        contextual=contextual,
        self_attention=self_attention,
    )
    shape = layers_shape(bilm) if bilm else (0, 0)
    characters = len(Lexicon.load(vocabulary).character_indices) + 2
    model = BiDAF(config, vectors, characters, layers_shape=shape)
    weights = {name: p.detach() for name, p in model.named_parameters()}
    variant = VariantConfig("made", config)
    trained = TrainedModel(variant, False, weights, vectors, vocabulary, bilm=bilm)
    save_model(root / "saved", trained)
    nothing = pa.table({"fingerprint": pa.array([], pa.binary(16))})
    pq.write_table(nothing, root / "saved" / TRAINED_CONTEXTS)
    return root / "saved"
