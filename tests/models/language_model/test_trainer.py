"""The training loop: it learns, resumes to the bit, and shares its tracks among workers."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from models.language_model import trainer as module
from models.language_model.config import LMTraining
from models.language_model.corpus import Corpus
from models.language_model.objective import LanguageModel
from models.language_model.streams import Tracks
from models.language_model.trainer import DivergedLM, LMTrainer
from tests.factories.language_models import CONFIG, WORDS, cyclic_corpus

TRAINING = LMTraining(epochs=12, tracks=8, steps=5, learning_rate=0.02)
CORPUS = cyclic_corpus()


def trainer(training: LMTraining = TRAINING, corpus: Corpus = CORPUS, **options: Any) -> LMTrainer:
    torch.manual_seed(training.seed)
    model = LanguageModel(CONFIG, len(WORDS) + 2, training.dropout)
    return LMTrainer(model, corpus, training, **options)


def weights(trained: LMTrainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trained.model.state_dict().items()}


def test_windows_follow_each_other_in_both_directions() -> None:
    tracks = Tracks(CORPUS, 2, 5)
    device = torch.device("cpu")
    first, second = (tracks.window(number, device) for number in (0, 1))
    for direction, stream in enumerate((CORPUS.forward, CORPUS.backward)):
        targets = [window.targets[direction, 0] for window in (first, second)]
        expected = CORPUS.classes[stream[1:11]]
        np.testing.assert_array_equal(torch.cat(targets).numpy(), expected)
    characters = first.characters[first.tokens]
    assert characters[0, 0, 0, 1] == 256, "forwards, a paragraph begins with its start"
    assert characters[1, 0, 0, 1] == 257, "backwards, with its end"
    words = CORPUS.forward[1:5]
    np.testing.assert_array_equal(characters[0, 0, 1:].numpy(), CORPUS.characters[words])


def test_held_out_perplexity_falls_in_both_directions() -> None:
    trained = trainer()
    held_out = cyclic_corpus(60, seed=1)
    before = trained.evaluate(held_out).metrics("held_out")
    while trained.step < trained.total_steps:
        trained.train_step()
    after = trained.evaluate(held_out).metrics("held_out")
    # Only a paragraph's length and its first word can't be predicted.
    assert after["held_out/perplexity_forward"] < 2.5
    assert after["held_out/perplexity_backward"] < 2.5
    assert before["held_out/perplexity_mean"] > 6
    assert after["held_out/perplexity_mean"] == pytest.approx(
        math.sqrt(after["held_out/perplexity_forward"] * after["held_out/perplexity_backward"])
    )
    assert trained.read().forward < math.log(4)


def test_resumed_training_ends_with_equal_weights() -> None:
    whole = trainer()
    for _ in range(30):
        whole.train_step()
    stopped = trainer()
    for _ in range(13):  # in the middle of an epoch
        stopped.train_step()
    saved = [
        {name: tensor.clone() for name, tensor in tensors.items()}
        for tensors in (stopped.tensors(), stopped.own_tensors())
    ]
    torch.manual_seed(99)
    resumed = trainer()
    resumed.resume(saved[0], saved[1], stopped.counters())
    for _ in range(17):
        resumed.train_step()
    expected = weights(whole)
    for name, tensor in weights(resumed).items():
        assert torch.equal(tensor, expected[name]), name
    assert resumed.read() == whole.read()


def test_mean_gradient_of_workers_is_that_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIP_NORM", math.inf)
    training = replace(TRAINING, dropout=0.0, tracks=7)
    alone = trainer(training)
    alone.train_step()
    workers = [trainer(training, rank=rank, world_size=2) for rank in range(2)]
    for worker in workers:
        worker.train_step()
    assert [worker.tracks.rows for worker in workers] == [4, 3]
    # The sums are of float32 losses.
    sums = workers[0].losses + workers[1].losses
    torch.testing.assert_close(sums, alone.losses, rtol=1e-6, atol=0)
    models = [dict(run.model.named_parameters()) for run in (alone, *workers)]
    for name, parameter in models[0].items():
        assert parameter.grad is not None
        shares = [model[name].grad for model in models[1:]]
        mean = torch.stack([share for share in shares if share is not None]).mean(0)
        torch.testing.assert_close(mean, parameter.grad, atol=1e-6, rtol=1e-4)


def test_bfloat16_is_close_to_float32() -> None:
    losses = []
    for precision in ("float32", "bfloat16"):
        trained = trainer(replace(TRAINING, precision=precision))
        for _ in range(20):
            trained.train_step()
        losses.append(trained.read().forward)
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_max_words_ends_the_training() -> None:
    limited = trainer(replace(TRAINING, max_words=1_000))
    assert limited.total_steps == 25
    assert trainer(replace(TRAINING, epochs=1)).total_steps == limited.tracks.windows


def test_short_corpus_has_fewer_tracks_or_is_rejected() -> None:
    short = cyclic_corpus(3)
    assert Tracks(short, 100, 5).rows == len(short.forward) // 6
    with pytest.raises(ValueError, match="too few for windows of 50 words"):
        Tracks(short, 100, 50)
    with pytest.raises(ValueError, match="on each worker"):
        Tracks(short, 100, 10, slice(0, None, 8))


def test_loss_that_is_not_finite_is_reported() -> None:
    diverging = trainer()
    with torch.no_grad():
        diverging.model.softmax.head.weight.fill_(math.nan)
    diverging.train_step()
    with pytest.raises(DivergedLM, match="training losses up to step 1 are nan forward"):
        diverging.read()


@pytest.mark.parametrize(("scale", "loss"), [(math.nan, "nan"), (1e30, r"[\d.]+e\+\d\d")])
def test_divergence_of_the_last_step_is_reported(scale: float, loss: str) -> None:
    """The training losses are those before the update, so only an evaluation can tell."""
    trained = trainer()
    trained.train_step()
    with torch.no_grad():
        trained.model.softmax.head.weight.mul_(scale)
    assert math.isfinite(trained.read().forward)
    with pytest.raises(DivergedLM, match=f"held-out losses are {loss} forward and {loss} backward"):
        trained.evaluate(cyclic_corpus(60, seed=1))


def test_all_workers_read_the_first_clock() -> None:
    """Otherwise they could disagree on whether a checkpoint is due, and wait forever."""
    first = trainer(rank=0, world_size=2)
    second = trainer(rank=1, world_size=2, all_reduce=lambda clock: clock.add_(first.seconds))
    first.seconds, second.seconds = 5.0, 99.0
    assert first.clock() == second.clock() == 5.0
