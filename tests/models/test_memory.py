"""Peak memory of additive self-attention at full size, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from infra.settings import CHECKOUT

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

STEP = """
import resource
import sys

import numpy as np
import torch

from models.batching import Examples, Ragged, Types
from models.bidaf import BiDAF
from models.presets import preset
from models.training import Trainer

BATCH, TOKENS = 60, 399  # and the null token
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
spelled = random.integers(2, 90, (498, 9)).tolist()
types = Types(np.arange(500), Ragged.from_rows([[], [1], *spelled]))
variant = preset("char-selfattn").with_changes(hidden_size=100, batch_size=BATCH)
trainer = Trainer(BiDAF(variant.model, torch.zeros(500, 50), 100), variant.training)
trainer.train_epoch(examples, types)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(trainer.step, peak // 1024 if sys.platform == "darwin" else peak)
"""


def test_a_step_of_60_contexts_of_400_tokens_stays_below_4_gb() -> None:
    """The (B, T, T, d) tensor alone would be 3.8 GB, and training needs it more than once."""
    done = subprocess.run(
        [sys.executable, "-c", STEP], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    steps, kilobytes = map(int, done.stdout.split())
    assert steps == 1
    assert kilobytes * 1024 < 4e9
