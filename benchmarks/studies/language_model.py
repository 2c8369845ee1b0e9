"""Times the training of ELMo's language model next to a plain loop of the same model.

Usage: python -m benchmarks.studies.language_model CORPUS... [--preset filters-512] [--steps 40]
       [--out FILE.json]

Both train in float32 on the same windows of the same texts, with the same weights at first, the
same adaptive softmax and Adam, without dropout, on all cores, one after the other: ours, which
computes a word's vector once per window, and a plain one, which runs `nn.Conv1d` over all 50
characters of every token in both directions. Each starts with steps that are not timed. The first
losses of both, which must agree, are reported.

Counts what ours computes (matrix products, convolutions, LSTMs; the backward pass counts as two
forward passes), and divides it by the fastest matrix product or convolution of the same run: the
part of the machine's peak.
"""

import flows  # noqa: F401  (sets Prefect's environment, before it is imported)

# isort: split
import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from prefect import flow
from torch import Tensor, nn

from benchmarks.common.machine import machine, print_result, today, use_worker_allocator
from benchmarks.floor import peaks, training_flops
from flows.common.encoding import corpus_files, prepare_corpus
from flows.common.failures import report_user_errors, result_or_exit
from flows.common.parameters import CorpusParameters
from models.language_model.bilm import States
from models.language_model.config import PRESETS, LMTraining, PresetName
from models.language_model.corpus import Corpus
from models.language_model.objective import LanguageModel
from models.language_model.streams import Window
from models.language_model.trainer import CLIP_NORM, LMTrainer
from tasks.embeddings.contextual.encode_corpus import TRAIN, EncodedCorpus, read_words
from tasks.embeddings.contextual.settings import ElmoSettings
from tasks.stages import encoding_corpus

WARMUP = 3  # steps in which memory is allocated and kernels are compiled


@flow(name="benchmark-language-model")
@report_user_errors
def prepare(files: list[str]) -> list[str]:
    """Prepare and encode the corpus, or take it from the cache, and return the folders."""
    parameters = CorpusParameters(files=files, lower_case=False)
    prepared = prepare_corpus(corpus_files(parameters), parameters).folder
    return [str(prepared), str(encoding_corpus(prepared).folder)]


def load(files: list[str]) -> tuple[Corpus, int]:
    """The words to train on, and the number of the softmax's classes."""
    prepared, encoded = map(Path, result_or_exit(prepare(files, return_state=True)))
    vocabulary = read_words(prepared)[: ElmoSettings().vocabulary]
    return EncodedCorpus(prepared, encoded).load(TRAIN, vocabulary), len(vocabulary) + 2


class PlainLanguageModel(nn.Module):
    """A language model's losses, computed with the characters of every token."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, window: Window, states: States) -> tuple[Tensor, States]:
        """The sum of both losses, and the states after the window."""
        encoder, softmax = self.model.bilm.encoder, self.model.softmax
        losses, after = [], []
        lstms = (self.model.bilm.ahead, self.model.bilm.back)
        for direction, (lstm, before) in enumerate(zip(lstms, states, strict=True)):
            characters = window.characters[window.tokens[direction]]
            embedded = encoder.embedding(characters.flatten(0, 1)).transpose(1, 2)
            maxima = [convolution(embedded).amax(2) for convolution in encoder.convolutions]
            x = encoder.projection(encoder.highway(torch.cat(maxima, 1).relu()))
            x = x.view(*characters.shape[:2], -1)
            new_states = []
            for number, (layer, state) in enumerate(zip(lstm.layers, before, strict=True)):
                read, (output, cell) = layer(x, state)
                x = read + x if number else read
                new_states.append((output.detach(), cell.detach()))
            losses.append(softmax(x.flatten(0, 1), window.targets[direction].flatten()).loss)
            after.append(new_states)
        return losses[0] + losses[1], (after[0], after[1])


class PlainTrainer:
    """Trains a plain model window by window."""

    def __init__(self, trainer: LMTrainer) -> None:
        """Starts with the model and reads the windows of `trainer`."""
        self.tracks = trainer.tracks
        self.model = PlainLanguageModel(trainer.model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), 2e-3, betas=(0.9, 0.99))
        self.states = trainer.model.bilm.first_states(self.tracks.rows)
        self.step = 0
        self.first_loss = 0.0

    def train_step(self) -> None:
        """Train on the next window."""
        window = self.tracks.window(self.step, torch.device("cpu"))
        self.optimizer.zero_grad()
        loss, self.states = self.model(window, self.states)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP_NORM)
        self.optimizer.step()
        self.first_loss = self.first_loss or loss.item()
        self.step += 1


def new_trainer(corpus: Corpus, classes: int, preset: PresetName) -> LMTrainer:
    """A trainer of a new model, the same one at each call, without dropout."""
    torch.manual_seed(0)
    model = LanguageModel(PRESETS[preset], classes)
    return LMTrainer(model, corpus, LMTraining(dropout=0))


def words_per_second(train_step: Callable[[], None], steps: int, words: int) -> float:
    """Words of the steps after the warm-up, each counted once for both directions, per second."""
    for _ in range(WARMUP):
        train_step()
    began = time.perf_counter()
    for _ in range(steps):
        train_step()
    return steps * words / (time.perf_counter() - began)


def measure(corpus: Corpus, classes: int, preset: PresetName, steps: int) -> dict[str, Any]:
    """Words per second of both loops, and the part of the machine's peak that ours uses."""
    plain = PlainTrainer(new_trainer(corpus, classes, preset))
    words = plain.tracks.words_per_window
    plain_speed = words_per_second(plain.train_step, steps, words)
    ours = new_trainer(corpus, classes, preset)
    ours.train_step()
    first = ours.read()
    speed = words_per_second(ours.train_step, steps, words)
    step_flops = training_flops(ours.model, ours.train_step)
    peak = peaks("float32").flops
    return {
        "words_a_step": words,
        "first_loss": {"bidaflow": first.forward + first.backward, "plain": plain.first_loss},
        "words_per_second": {"bidaflow": speed, "plain": plain_speed},
        "times_as_fast": speed / plain_speed,
        "flops_a_word": step_flops / words,
        "flops_per_second": step_flops / words * speed,
        "peak_flops_per_second": peak,
        "part_of_peak": step_flops / words * speed / peak,
        "hours_for_16_million_words": 16e6 / speed / 3600,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="+", help="text files, one paragraph per line")
    parser.add_argument("--preset", default="filters-512", choices=PRESETS)
    parser.add_argument("--steps", type=int, default=40, help="steps to time (default: 40)")
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    arguments = parser.parse_args()
    use_worker_allocator()
    corpus, classes = load(arguments.corpus)
    names = " ".join(Path(file).name for file in arguments.corpus)
    result = {
        "command": f"python -m benchmarks.studies.language_model {names} "
        f"--preset {arguments.preset} --steps {arguments.steps}",
        "date": today(),
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "measured": measure(corpus, classes, arguments.preset, arguments.steps),
    }
    print_result(result, arguments.out)


if __name__ == "__main__":
    main()
