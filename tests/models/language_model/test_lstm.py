"""The LSTM with clips: the gates' inputs are computed in parts."""

from dataclasses import replace

import pytest
import torch

from models.language_model import lstm as module
from models.language_model.lstm import ClippedLSTM
from tests.factories.language_models import CONFIG


@torch.no_grad()
def test_long_text_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer = ClippedLSTM(replace(CONFIG, hidden_size=64, cell_clip=0.5, projection_clip=0.5))
    x, state = torch.randn(2, 11, 16), (torch.randn(1, 2, 16), torch.randn(1, 2, 64))
    whole, (output, cell) = layer(x, state)
    sizes = []
    layer.inputs.register_forward_hook(lambda _, args, out: sizes.append(out.shape[1]))
    monkeypatch.setattr(module, "STEPS_AT_ONCE", 4)
    parts, after = layer(x, state)
    assert sizes == [4, 4, 3]
    for actual, expected in zip((parts, *after), (whole, output, cell), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)
