"""Training on a GPU: CPU-equal losses and predictions, bitwise resuming, no synchronization."""

import numpy as np
import pytest
import torch

from models.configs.presets import PRESETS
from models.configs.variant import VariantConfig
from models.trainer import Reading, Trainer
from tests.factories.models import make_examples, make_model, make_types, small

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

TYPES, EXAMPLES = make_types(), make_examples([4 + i % 9 for i in range(60)])


def trainer(variant: VariantConfig, device: str) -> Trainer:
    on_device = Trainer(make_model(variant), variant.training, wrap=lambda m: m.to(device))
    torch.manual_seed(1)
    return on_device


@pytest.mark.parametrize("name", PRESETS)
def test_losses_and_predictions_match_the_cpu(name: str) -> None:
    variant = small(name, batch_size=4, dropout=0.0, optimizer="adam", learning_rate=0.001)
    results = []
    for device in ("cpu", "cuda"):
        model_trainer = trainer(variant, device)
        epochs = [model_trainer.train_epoch(EXAMPLES, TYPES) for _ in range(2)]
        results.append(([epoch.nll for epoch in epochs], model_trainer.predict(EXAMPLES, TYPES)[1]))
    (cpu_losses, cpu_nlls), (gpu_losses, gpu_nlls) = results
    assert gpu_losses == pytest.approx(cpu_losses, rel=1e-3)
    np.testing.assert_allclose(gpu_nlls, cpu_nlls, atol=1e-2)


def test_bfloat16_losses_match_float32() -> None:
    nlls = {}
    for precision in ("float32", "bfloat16"):
        model_trainer = trainer(
            small("char", dropout=0.0, batch_size=8, precision=precision), "cuda"
        )
        nlls[precision] = [model_trainer.train_epoch(EXAMPLES, TYPES).nll for _ in range(3)]
    assert nlls["bfloat16"] == pytest.approx(nlls["float32"], rel=0.02)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("optimizer", ["adadelta", "adam"])
@pytest.mark.parametrize("name", PRESETS)
def test_training_steps_do_not_synchronize_the_gpu(
    name: str, optimizer: str, precision: str
) -> None:
    rate = 0.001 if optimizer == "adam" else 0.5
    variant = small(
        name, batch_size=4, optimizer=optimizer, learning_rate=rate, precision=precision
    )
    model_trainer = trainer(variant, "cuda")
    model_trainer.train_epoch(EXAMPLES, TYPES)
    inner = model_trainer._train_step

    def watched(*arguments: object) -> None:
        torch.cuda.set_sync_debug_mode("error")
        try:
            inner(*arguments)  # type: ignore[arg-type]
        finally:
            torch.cuda.set_sync_debug_mode("default")

    model_trainer._train_step = watched  # type: ignore[method-assign,assignment]
    model_trainer.train_epoch(EXAMPLES, TYPES)


def test_resumed_training_is_bitwise_identical() -> None:
    try:
        variant = small("char", batch_size=4, dropout=0.3, deterministic=True)
        whole = trainer(variant, "cuda")
        kept = []

        def keep(reading: Reading) -> bool:
            if not kept:
                tensors = {name: tensor.clone() for name, tensor in whole.tensors().items()}
                kept.append((tensors, whole.random_state(), whole.counters()))
            return True

        whole.train_epoch(EXAMPLES, TYPES, keep)
        resumed = trainer(variant, "cuda")
        resumed.resume(*kept[0])
        resumed.train_epoch(EXAMPLES, TYPES)
    finally:
        torch.use_deterministic_algorithms(False)
    for name, tensor in whole.tensors().items():
        assert torch.equal(resumed.tensors()[name], tensor), name
