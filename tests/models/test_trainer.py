"""The training loop: losses, averaged weights, bitwise resuming, and several workers."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

import models.predict
import models.trainer
from models.batching import Examples, Ragged, ResidentExamples, make_batch
from models.configs.presets import PRESETS
from models.configs.variant import VariantConfig
from models.optim import AveragedWeights
from models.predict import predict, span_nll
from models.trainer import Diverged, Reading, Trainer
from tests.factories.models import (
    make_examples,
    make_model,
    make_types,
    small,
)

TYPES = make_types()
all_presets = pytest.mark.parametrize("name", PRESETS)


def make_trainer(variant: VariantConfig, **options: int) -> Trainer:
    """A trainer whose initial weights and dropout are determined by the variant's seed."""
    return Trainer(make_model(variant, variant.training.seed), variant.training, **options)


def cloned(trainer: Trainer) -> dict[str, Tensor]:
    """Copies of the tensors that a checkpoint would hold."""
    return {name: tensor.clone() for name, tensor in trainer.tensors().items()}


Checkpoint = tuple[dict[str, Tensor], dict[str, Tensor], dict[str, float]]


def checkpoint(trainer: Trainer) -> Checkpoint:
    """Everything that a checkpoint would hold."""
    return cloned(trainer), trainer.random_state(), trainer.counters()


def readings_of(trainer: Trainer, examples: Examples) -> list[Reading]:
    """The readings that one epoch reports."""
    readings: list[Reading] = []
    trainer.train_epoch(examples, TYPES, lambda reading: readings.append(reading) or True)
    return readings


# Losses and gradients


PARTS = ("", "_attention", "_modeling")


@all_presets
def test_word_vectors_and_padding_character_stay_fixed(name: str) -> None:
    trainer = make_trainer(small(name, optimizer="adam", learning_rate=0.01))
    vectors = trainer.model.words.word_vectors.clone()
    before = cloned(trainer)
    trainer.train_epoch(make_examples([5, 6, 7, 8]), TYPES)
    assert torch.equal(trainer.model.words.word_vectors, vectors)
    weights = {n for n in before if n.startswith("weights.")}
    unchanged = {n for n in weights if torch.equal(before[n], trainer.tensors()[n])}
    # These biases add a constant to every logit, which cancels out in each softmax.
    ends = [f"{end}{part}" for end in ("start", "end") for part in PARTS]
    output = {f"weights.output.{end}.bias" for end in ends}
    assert unchanged <= {"weights.attention.similarity.bias", *output}
    if trainer.model.words.characters is not None:
        assert not trainer.model.words.characters.embedding.weight[0].any()


def test_loss_is_the_likelihood_of_start_and_end() -> None:
    examples = make_examples([3, 3])
    batch = make_batch(examples, TYPES, np.array([0, 1]), 8)
    batch = replace(batch, start=torch.tensor([1, -1]), end=torch.tensor([3, -1]))
    start = torch.tensor([[0.1, 0.2, 0.3, 0.4]] * 2).log()
    end = torch.tensor([[0.4, 0.3, 0.2, 0.1]] * 2).log()
    actual = span_nll(start, end, batch.start, batch.end)
    assert actual.tolist() == pytest.approx([-np.log(0.2) - np.log(0.1), 0.0])


def test_gradients_are_clipped_to_the_norm() -> None:
    trainer = make_trainer(small("char", clip_norm=0.01))
    trainer.train_epoch(make_examples([5, 6, 7]), TYPES)
    norm = torch.stack([p.grad.norm() for p in trainer.model.parameters()]).norm()
    assert norm.item() == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("window_stride", [None, 4])
def test_divergence_error_names_the_step(window_stride: int | None) -> None:
    sizes = {"max_context_tokens": 8, "window_stride": window_stride}
    trainer = make_trainer(small("baseline", learning_rate=1e30, **sizes))
    examples = make_examples([5, 6, 7, 8, 30])
    reported: list[Reading] = []
    trainer.train_epoch(examples, TYPES, lambda reading: bool(reported.append(reading)))
    with pytest.raises(Diverged, match="answer probabilities are not finite after step 1"):
        trainer.predict(examples, TYPES)
    with pytest.raises(Diverged, match=r"the loss of step 2 is (nan|inf)"):
        trainer.train_epoch(examples, TYPES, lambda reading: bool(reported.append(reading)))
    assert [reading.step for reading in reported] == [1]


RECURRENT = {"aten::lstm", "aten::gru", "MkldnnRnnLayerBackward0"}


def callers(event: FunctionEvent) -> set[str]:
    """The operators and autograd functions in which an operator is called."""
    names = set()
    while (event := event.cpu_parent) is not None:
        names.add(event.name)
    return names


def operators_of(step: Callable[[], None]) -> list[str]:
    """The operators that Python and autograd call in a step, outside the recurrent layers."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        step()
    return [
        event.name
        for event in profiler.events()
        if event.name.startswith("aten::")
        and not any(name.startswith("aten::") for name in callers(event))
        and not {event.name, *callers(event)} & RECURRENT
    ]


@pytest.mark.parametrize(("name", "most"), [("char", 825), ("docqa", 620)])
def test_step_calls_few_operators(name: str, most: int) -> None:
    """On a GPU, the host takes longer to call an operator than a small batch takes in it."""
    # GRUs call operators step by step on a CPU.
    variant = small(name, recurrent="lstm", optimizer="adam", learning_rate=0.001, batch_size=8)
    trainer, examples = make_trainer(variant), make_examples([20 + i for i in range(8)])
    trainer.train_epoch(examples, TYPES)
    resident = ResidentExamples(examples, TYPES, trainer.model.max_characters, trainer.device)
    operators = operators_of(lambda: trainer._train_step(resident, np.arange(8)))
    assert 400 < len(operators) <= most, Counter(operators).most_common(12)


# Optimizers


def test_adadelta_gets_its_settings() -> None:
    (published,) = make_trainer(small("baseline")).optimizer.param_groups
    assert (published["lr"], published["rho"], published["eps"]) == (0.5, 0.9, 1e-6)
    trainer = make_trainer(small("baseline", learning_rate=1.0, rho=0.95, epsilon=1e-8))
    (changed,) = trainer.optimizer.param_groups
    assert isinstance(trainer.optimizer, torch.optim.Adadelta)
    assert (changed["lr"], changed["rho"], changed["eps"]) == (1.0, 0.95, 1e-8)


def test_adam_gets_its_settings() -> None:
    trainer = make_trainer(small("baseline", optimizer="adam", learning_rate=0.002))
    assert isinstance(trainer.optimizer, torch.optim.Adam)
    assert trainer.optimizer.param_groups[0]["lr"] == 0.002


# Averaged weights


def moving_average(values: list[float], first: float, decay: float) -> float:
    average = first
    for n, value in enumerate(values):
        d = min(decay, (1 + n) / (10 + n))
        average = d * average + (1 - d) * value
    return average


@given(
    values=st.lists(st.floats(-5, 5, width=32), max_size=30),
    first=st.floats(-5, 5, width=32),
    decay=st.sampled_from([0.0, 0.15, 0.5, 0.999]),
)
def test_ema_with_warmup_matches_reference(values: list[float], first: float, decay: float) -> None:
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(model.weight, first)
    averages = AveragedWeights(model, decay)
    for n, value in enumerate(values):
        nn.init.constant_(model.weight, value)
        averages.update(n)
    expected = moving_average(values, first, decay)
    assert averages.averaged["weight"].item() == pytest.approx(expected, abs=1e-9)


def test_ema_is_updated_after_every_step() -> None:
    trainer = make_trainer(small("baseline", optimizer="adam", learning_rate=0.05))
    name, weight = next(iter(trainer.averages.live.items()))
    first, values = weight.flatten()[0].item(), []

    def record(reading: Reading) -> bool:
        values.append(weight.flatten()[0].item())
        return True

    for _ in range(2):
        trainer.train_epoch(make_examples([5] * 5), TYPES, record)
    assert len(values) == 4
    average = trainer.averages.averaged[name].flatten()[0].item()
    assert average == pytest.approx(moving_average(values, first, 0.999), abs=1e-6)


@pytest.mark.parametrize("failing", [False, True])
def test_ema_weights_are_swapped_in_and_restored(failing: bool) -> None:
    trainer = make_trainer(small("char"))
    trainer.train_epoch(make_examples([5, 6, 7, 8, 9]), TYPES)
    before = cloned(trainer)
    name = "output.start_modeling.weight"
    try:
        with trainer.averages.in_use():
            live = trainer.model.output.start_modeling.weight
            assert torch.equal(live, before[f"averaged.{name}"])
            assert not torch.equal(live, before[f"weights.{name}"])
            if failing:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert failing
    after = trainer.tensors()
    assert all(torch.equal(after[key], value) for key, value in before.items())


def test_prediction_uses_the_ema_weights() -> None:
    trainer = make_trainer(small("baseline", optimizer="adam", learning_rate=0.05))
    examples = make_examples([5, 6, 7, 8, 9])
    trainer.train_epoch(examples, TYPES)
    _, nlls = trainer.predict(examples, TYPES)
    _, raw = predict(trainer.model, examples, TYPES, 15)
    with trainer.averages.in_use():
        _, averaged = predict(trainer.model, examples, TYPES, 15)
    assert np.array_equal(nlls, averaged)
    assert (nlls != raw).all()


# Resuming


RESUMED = make_examples([5, 6, 7, 8, 9, 4, 3, 12, 11])  # batches of 4: 3 steps per epoch


@pytest.mark.parametrize("optimizer", ["adadelta", "adam"])
@pytest.mark.parametrize(
    ("name", "steps"), [*(("char", n) for n in range(7)), *((name, 4) for name in PRESETS)]
)
def test_resumed_training_is_bitwise_identical(name: str, optimizer: str, steps: int) -> None:
    """Resumed after any number of its six steps, including none and the last of an epoch."""
    schedule = {"schedule": "linear", "warmup_steps": 5, "no_answer_share": 0.6}
    variant = small(name, optimizer=optimizer, learning_rate=0.1, dropout=0.3, **schedule)
    whole = make_trainer(variant)
    kept = [checkpoint(whole)]

    def keep(reading: Reading) -> bool:
        kept.append(checkpoint(whole))
        return True

    expected = [whole.train_epoch(RESUMED, TYPES, keep) for _ in range(2)]

    resumed = Trainer(make_model(variant, seed=999), variant.training)
    torch.manual_seed(1)
    resumed.resume(*kept[steps])
    while resumed.epoch < 2:
        actual = resumed.train_epoch(RESUMED, TYPES)
        assert actual.nll == expected[resumed.epoch - 1].nll
        assert actual.padding_ratio == expected[resumed.epoch - 1].padding_ratio
    assert resumed.step == whole.step == 6
    assert resumed.tensors().keys() == whole.tensors().keys()
    for key, tensor in whole.tensors().items():
        assert torch.equal(resumed.tensors()[key], tensor), key
    assert torch.equal(torch.get_rng_state(), kept[-1][1]["cpu"])


def test_resuming_does_not_modify_the_checkpoint() -> None:
    trainer, other = (make_trainer(small("baseline")) for _ in range(2))
    trainer.train_epoch(RESUMED, TYPES)
    kept = checkpoint(trainer)
    before = {key: value.clone() for key, value in kept[0].items()}
    other.resume(*kept)
    other.train_epoch(RESUMED, TYPES)
    assert all(torch.equal(kept[0][key], value) for key, value in before.items()), "aliased"


def test_interrupted_epoch_reports_its_own_steps() -> None:
    variant = small("baseline", batch_size=2, dropout=0.0)
    trainer, other = make_trainer(variant), make_trainer(variant)
    reported = readings_of(other, RESUMED)
    readings: list[Reading] = []

    def should_continue(reading: Reading) -> bool:
        readings.append(reading)
        return reading.epoch_step < 2

    epoch = trainer.train_epoch(RESUMED, TYPES, should_continue)
    assert [reading.nlls for reading in readings] == [reading.nlls for reading in reported[:2]]
    assert epoch.nll == pytest.approx(np.mean([reading.nlls for reading in readings]))
    assert epoch.examples_per_second == pytest.approx(4 / epoch.seconds, rel=0.01)
    assert (trainer.epoch, trainer.step, trainer.position) == (1, 2, 0)


# Readings


def test_losses_do_not_depend_on_reading_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    variant = small("baseline", batch_size=2, dropout=0.3)
    every_step, every_second_step = make_trainer(variant), make_trainer(variant)
    torch.manual_seed(1)
    steps = readings_of(every_step, RESUMED)
    monkeypatch.setitem(models.trainer.STEPS_PER_READING, "cpu", 2)
    torch.manual_seed(1)
    readings = readings_of(every_second_step, RESUMED)
    assert [reading.epoch_step for reading in readings] == [2, 4, 5]
    actual = [nll for reading in readings for nll in reading.nlls]
    assert actual == [step.nlls[0] for step in steps]


@all_presets
def test_bfloat16_is_close_to_float32(name: str) -> None:
    actual = {}
    for precision in ("float32", "bfloat16"):
        trainer = make_trainer(small(name, dropout=0.0, precision=precision))
        actual[precision] = trainer.train_epoch(RESUMED, TYPES).nll
        assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}
    assert actual["bfloat16"] != actual["float32"]
    assert actual["bfloat16"] == pytest.approx(actual["float32"], rel=0.02)


# Workers


def gradients(trainer: Trainer, examples: Examples) -> list[Tensor]:
    """The gradients of an epoch's last step."""
    trainer.train_epoch(examples, TYPES)
    return [p.grad.clone() for p in trainer.model.parameters()]


@all_presets
@pytest.mark.parametrize(("rows", "workers"), [(8, 2), (7, 2), (7, 3), (2, 3), (1, 2)])
def test_averaged_worker_gradients_match_one_worker(name: str, rows: int, workers: int) -> None:
    variant = small(name, batch_size=8, dropout=0.0, clip_norm=1e9)
    examples = make_examples([4 + i for i in range(rows)])
    single = gradients(make_trainer(variant), examples)
    shares = [
        gradients(make_trainer(variant, rank=rank, world_size=workers), examples)
        for rank in range(workers)
    ]
    for expected, parts in zip(single, zip(*shares, strict=True), strict=True):
        torch.testing.assert_close(sum(parts) / workers, expected, rtol=1e-4, atol=1e-6)
    # With several rows, a worker's own gradients differ from the average.
    if rows > 1:
        assert not torch.allclose(shares[0][0], single[0], rtol=1e-4, atol=1e-6)


class ThreadedWorkers:
    """Workers that run as threads.

    Averages their gradients and adds their losses, as DistributedDataParallel and all_reduce do.
    """

    def __init__(self, workers: int) -> None:
        self.barrier = threading.Barrier(workers, timeout=300)
        self.tensors: list[Tensor | None] = [None] * workers

    def sum(self, rank: int, tensor: Tensor) -> Tensor:
        """The sum of every worker's tensor."""
        self.tensors[rank] = tensor.clone()
        self.barrier.wait()
        total = sum(self.tensors)
        self.barrier.wait()
        return total

    def trainer(self, variant: VariantConfig, rank: int) -> Trainer:
        """The trainer of one worker."""
        workers = len(self.tensors)

        def hook(parameter: Tensor) -> None:
            parameter.grad = self.sum(rank, parameter.grad) / workers

        def wrap(model: nn.Module) -> nn.Module:
            for parameter in model.parameters():
                parameter.register_post_accumulate_grad_hook(hook)
            return model

        return Trainer(
            make_model(variant),
            variant.training,
            wrap=wrap,
            all_reduce=lambda tensor: tensor.copy_(self.sum(rank, tensor)),
            rank=rank,
            world_size=workers,
        )


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_train_the_same_model_as_one(workers: int) -> None:
    variant = small("char", batch_size=4, dropout=0.0, clip_norm=0.5)
    examples = make_examples([4 + i % 5 for i in range(13)])  # batches of 4, 4, 4 and 1
    pool = ThreadedWorkers(workers)
    trainers = [pool.trainer(variant, rank) for rank in range(workers)]
    losses: list[list[float]] = [[] for _ in range(workers + 1)]

    def run(trainer: Trainer, number: int) -> None:
        for _ in range(2):
            for reading in readings_of(trainer, examples):
                losses[number] += reading.nlls

    threads = [threading.Thread(target=run, args=(t, i)) for i, t in enumerate(trainers)]
    for thread in threads:
        thread.start()
    single = make_trainer(variant)
    run(single, workers)
    for thread in threads:
        thread.join()
    *actual, expected = losses
    for worker_losses in actual:
        assert worker_losses == actual[0], "every worker reads the summed losses"
        assert worker_losses == pytest.approx(expected, abs=1e-5)
    for name, weight in single.model.named_parameters():
        first, *others = (dict(t.model.named_parameters())[name] for t in trainers)
        assert all(torch.equal(first, other) for other in others)
        torch.testing.assert_close(first, weight, rtol=0, atol=1e-5)


@pytest.mark.parametrize("workers", [2, 5])
def test_workers_predict_the_same_as_one(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.predict, "EVALUATION_TOKENS", 30)  # 4 batches
    variant, examples = small("char"), make_examples([4 + i % 5 for i in range(13)])
    pool = ThreadedWorkers(workers)
    trainers = [pool.trainer(variant, rank) for rank in range(workers)]
    with ThreadPoolExecutor(workers) as executor:
        actual = list(executor.map(lambda trainer: trainer.predict(examples, TYPES), trainers))
    expected, expected_nlls = make_trainer(variant).predict(examples, TYPES)
    for predictions, nlls in actual:
        for name, numbers in vars(expected).items():
            np.testing.assert_array_equal(vars(predictions)[name], numbers, strict=True)
        np.testing.assert_array_equal(nlls, expected_nlls, strict=True)


# Selection of rows for training and prediction


def test_long_contexts_are_skipped_but_still_answered() -> None:
    examples = make_examples([3, 30, 4, 31, 5, 32])
    variant = small("baseline", batch_size=1, max_context_tokens=20)
    trainer = make_trainer(variant)
    assert len(readings_of(trainer, examples)) == 3
    actual, _ = trainer.predict(examples, TYPES)
    assert len(actual.span_start) == 6
    assert (actual.span_start >= 0).all()
    assert (actual.span_end < examples.context_lengths).all()


def test_epoch_reports_loss_padding_and_speed() -> None:
    examples = make_examples([2, 4, 6, 8])
    trainer = make_trainer(small("baseline", batch_size=2))
    readings: list[Reading] = []
    epoch = trainer.train_epoch(examples, TYPES, lambda r: readings.append(r) or True)
    # Batches (2, 4) and (6, 8), with a null token per row: 24 tokens in 4·16 positions.
    assert epoch.padding_ratio == pytest.approx(1 - 24 / 64)
    assert epoch.nll == pytest.approx(sum(r.nlls[0] for r in readings) / 2)
    assert epoch.examples_per_second == pytest.approx(4 / epoch.seconds)


@all_presets
def test_batched_prediction_equals_one_by_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models.predict, "EVALUATION_TOKENS", 30)
    examples = make_examples([9, 2, 14, 1, 40, 6, 9, 3, 11], [4, 1, 0, 7, 3, 3, 2, 5, 1])
    model = make_model(small(name, hidden_size=12), seed=4, scale=3.0).double()
    actual, nlls = predict(model, examples, TYPES, 4)
    for i in range(len(examples)):
        single = replace(
            examples,
            questions=Ragged.from_rows([examples.questions[i].tolist()]),
            context_of=examples.context_of[i : i + 1],
            span_start=examples.span_start[i : i + 1],
            span_end=examples.span_end[i : i + 1],
            impossible=examples.impossible[i : i + 1],
            question_layers=examples.question_layers.parts(np.array([i])),
        )
        own, own_nll = predict(model, single, TYPES, 4)
        assert nlls[i] == pytest.approx(own_nll[0], abs=1e-9)
        assert (actual.span_start[i], actual.span_end[i]) == (own.span_start[0], own.span_end[0])
        assert actual.span_score[i] == pytest.approx(own.span_score[0], abs=1e-9)
        assert actual.no_answer_score[i] == pytest.approx(own.no_answer_score[0], abs=1e-9)
    assert (actual.span_end - actual.span_start < 4).all()
    assert (actual.span_end < examples.context_lengths).all()
    assert (actual.span_start >= 0).all()
    assert len(set(actual.span_start.tolist())) > 2


def test_nll_is_computed_only_for_rows_with_a_target() -> None:
    examples = make_examples([5, 6, 7, 8])
    model = make_model(small("baseline"))
    without = replace(examples, span_start=examples.span_start.copy())
    without.span_start[1:3] = -1
    without = replace(without, span_end=np.where(without.span_start < 0, -1, without.span_end))
    _, nlls = predict(model, without, TYPES, 15)
    model.eval()
    with torch.no_grad():
        batch = make_batch(examples, TYPES, np.array([0, 3]), model.max_characters)
        expected = span_nll(*model(batch), batch.start, batch.end).numpy()
    assert nlls[[0, 3]] == pytest.approx(expected, abs=1e-5)
    assert np.isnan(nlls).tolist() == (~without.has_target).tolist() == [False, True, True, False]


def test_only_training_applies_dropout() -> None:
    trainer, examples = make_trainer(small("char", dropout=0.5)), make_examples([6, 7, 8])
    before = torch.get_rng_state()
    first, _ = trainer.predict(examples, TYPES)
    second, _ = trainer.predict(examples, TYPES)
    assert np.array_equal(first.span_score, second.span_score)
    assert torch.equal(torch.get_rng_state(), before)
    trainer.train_epoch(examples, TYPES)
    assert not torch.equal(torch.get_rng_state(), before)


def test_deterministic_training_is_required_of_torch() -> None:
    try:
        make_trainer(small("baseline", deterministic=True))
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
