"""Peak memory of additive self-attention and of sliding windows, each in its own process."""

import subprocess
import sys

import pytest

from infra.settings import CHECKOUT

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]

STEP = """
import sys

import numpy as np
import torch

from benchmarks.common.machine import peak_mib
from models.batching import Examples, Ragged, Types
from models.bidaf import BiDAF
from models.configs.presets import preset
from models.trainer import Trainer

BATCH, TOKENS = int(sys.argv[1]), 399  # and the null token
torch.set_num_threads(1)
random = np.random.default_rng(0)
examples = Examples(
    contexts=Ragged.from_rows(random.integers(2, 500, (BATCH, TOKENS)).tolist()),
    questions=Ragged.from_rows(random.integers(2, 500, (BATCH, 15)).tolist()),
    context_of=np.arange(BATCH),
    span_start=np.zeros(BATCH, int),
    span_end=np.zeros(BATCH, int),
    impossible=np.zeros(BATCH, bool),
)
character_rows = random.integers(2, 90, (498, 9)).tolist()
types = Types(np.arange(500), Ragged.from_rows([[], [1], *character_rows]))
variant = preset("char-selfattn").with_changes(hidden_size=100, batch_size=BATCH)
trainer = Trainer(BiDAF(variant.model, torch.zeros(500, 50), 100), variant.training)
trainer.train_epoch(examples, types)
print(trainer.step, peak_mib())
"""

WINDOWS = """
import sys

import numpy as np
import torch

from benchmarks.common.machine import peak_mib
from models.batching import Examples, Ragged, Types
from models.bidaf import BiDAF
from models.configs.presets import preset
from models.trainer import Trainer

TOKENS = int(sys.argv[1])
torch.set_num_threads(1)
random = np.random.default_rng(0)
examples = Examples(
    contexts=Ragged.from_rows([random.integers(2, 500, TOKENS).tolist()]),
    questions=Ragged.from_rows(random.integers(2, 500, (2, 15)).tolist()),
    context_of=np.array([0, 0]),
    span_start=np.array([5, TOKENS - 9]),
    span_end=np.array([9, TOKENS - 5]),
    impossible=np.zeros(2, bool),
)
character_rows = random.integers(2, 90, (498, 9)).tolist()
types = Types(np.arange(500), Ragged.from_rows([[], [1], *character_rows]))
variant = preset("char-selfattn").with_changes(hidden_size=8, window_stride=200)
trainer = Trainer(BiDAF(variant.model, torch.zeros(500, 50), 100), variant.training)
before = peak_mib()
trainer.train_epoch(examples, types)
predictions, _ = trainer.predict(examples, types)
assert len(predictions.span_start) == 2
print(trainer.step, peak_mib() - before)
"""


def peak_bytes(script: str, *arguments: str) -> int:
    """Peak memory in bytes that a script of one training step prints."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    steps, mebibytes = map(int, done.stdout.split())
    assert steps == 1
    return mebibytes << 20


@pytest.mark.parametrize(
    ("contexts", "limit"), [(15, 1.2e9), pytest.param(60, 4e9, marks=pytest.mark.full)]
)
def test_step_on_contexts_of_400_tokens_fits_memory(contexts: int, limit: float) -> None:
    """The (B, T, T, d) tensor alone would take 0.96 GB or 3.8 GB, and torch itself takes 0.4 GB.

    Training would need that tensor more than once.
    """
    assert peak_bytes(STEP, str(contexts)) < limit


@pytest.mark.full
def test_windowed_memory_ignores_context_length() -> None:
    """The longest context of covid_qa, and one twice as long.

    A single (T, T) matrix would take 0.7 GB or 2.9 GB.
    """
    longest, twice = (peak_bytes(WINDOWS, str(tokens)) for tokens in (13_349, 26_698))
    assert longest < 0.5e9 and twice < longest + 0.1e9
