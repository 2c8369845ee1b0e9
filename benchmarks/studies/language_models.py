"""The perplexities of the language models that were trained under the storage root.

Usage: python -m benchmarks.studies.language_models OUT_FOLDER

The commands of the published results, with BIDAFLOW_MIRROR set to the folder with the data:

    T="bidaflow embeddings train --embedding.method elmo --corpus.no-lower-case
      --embedding.elmo.precision bfloat16"
    $T --corpus.files enwiki2015-64M --embedding.elmo.max-words 16500000 --name wiki-bilm
    $T --corpus.files medquad --start wiki-bilm --name medquad-bilm

OUT_FOLDER gets language-models.json and .md, with a row per model, the oldest first, and a picture
of the perplexities over the words that were read. The n-gram models are computed anew, on the words
that the language model read. Speed is what
`benchmarks.studies.language_model` measures.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.ticker import ScalarFormatter

from benchmarks.common.figures import save
from benchmarks.common.tables import write_table
from benchmarks.trainings.finished import finished_folders, input_folders
from infra.artifacts.manifest import Manifest, read_manifest
from tasks.embeddings.contextual.bilm_file import load_bilm
from tasks.embeddings.contextual.encode_corpus import HELD_OUT, TRAIN, EncodedCorpus
from tasks.embeddings.contextual.ngram_baselines import ngram_perplexities
from tasks.embeddings.formats.source import BILM
from tasks.embeddings.training.config import EmbeddingParameters

TIMES = ("seconds", "words_per_second")
PARTS = {"train/perplexity_mean": "train", "held_out/perplexity_mean": "held out"}


@dataclass(frozen=True)
class Trained:
    """A finished training of a language model."""

    folder: Path

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest of the stage."""
        return read_manifest(self.folder)

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """Its evaluations, without their times."""
        history = json.loads((self.folder / "history.json").read_text(encoding="utf-8"))
        return [{k: v for k, v in entry.items() if k not in TIMES} for entry in history]

    @cached_property
    def prepared(self) -> Path:
        """The folder of the prepared corpus."""
        (folder,) = input_folders(self.folder, "corpus")
        return folder

    @property
    def title(self) -> str:
        """The names of the corpus's files, and whether the training continued another one."""
        entries = read_manifest(self.prepared)["made_from"]
        files = [entry.get("file") or Path(entry["path"]).name for entry in entries]
        continued = ", continued" if self.manifest["inputs"]["start"] else ""
        return " + ".join(files) + continued

    def ngram_perplexities(self) -> dict[str, float]:
        """The held-out perplexities of n-gram models of the words that the training read."""
        (encoded,) = input_folders(self.folder, "encoded")
        parameters = EmbeddingParameters.model_validate(self.manifest["inputs"]["parameters"])
        words = load_bilm(self.folder / BILM).words
        corpus = EncodedCorpus(self.prepared, encoded)
        train, held_out = (corpus.load(part, words) for part in (TRAIN, HELD_OUT))
        training = parameters.elmo.training(parameters.epoch_count, parameters.seed)
        return ngram_perplexities(train, held_out, training)

    def row(self) -> dict[str, str]:
        """Its row of the table."""
        first, last, ngrams = self.history[0], self.history[-1], self.ngram_perplexities()
        return {
            "corpus": self.title,
            "words read": f"{last['words']:,}",
            "held-out words": f"{self.manifest['facts']['held_out_words']:,}",
            "forward": f"{last['held_out/perplexity_forward']:.1f}",
            "backward": f"{last['held_out/perplexity_backward']:.1f}",
            "mean": f"{last['held_out/perplexity_mean']:.1f}",
            "mean on train, with dropout": f"{last['train/perplexity_mean']:.1f}",
            "mean at first": f"{first['held_out/perplexity_mean']:.1f} ({first['words']:,} words)",
            "unigram": f"{ngrams['held_out/perplexity_unigram']:.1f}",
            "trigram": f"{ngrams['held_out/perplexity_trigram']:.1f}",
        }


def draw(trained: Sequence[Trained], file: Path) -> None:
    """Draw the perplexities of each training over the words that it read."""
    size = (4.5 * len(trained), 3.6)
    figure, panels = plt.subplots(
        1, len(trained), figsize=size, layout="constrained", squeeze=False
    )
    for axes, own in zip(panels[0], trained, strict=True):
        millions = [entry["words"] / 1e6 for entry in own.history]
        for name, label in PARTS.items():
            points = [(x, entry.get(name)) for x, entry in zip(millions, own.history, strict=True)]
            known = [(x, y) for x, y in points if y is not None]
            axes.plot(*zip(*known, strict=True), "o-", markersize=3, label=label)
        axes.set(xlabel="million words read", ylabel="perplexity", yscale="log", title=own.title)
        for part in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            part(ScalarFormatter())
        axes.grid(alpha=0.3, which="both")
        axes.legend()
    save(figure, file)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT_FOLDER")
    out = parser.parse_args().out
    trained = [Trained(folder) for folder in finished_folders("train-language-model")]
    if not trained:
        parser.error("no language model was trained under BIDAFLOW_ROOT")
    out.mkdir(parents=True, exist_ok=True)
    facts = [
        {
            "parameters": own.manifest["inputs"]["parameters"],
            "git": own.manifest["git"],
            "finished": own.manifest["finished"],
            "history": own.history,
        }
        for own in trained
    ]
    rows = [own.row() for own in trained]
    write_table(out, "language-models", "benchmarks.studies.language_models", rows, trained=facts)
    draw(trained, out / "language-models.png")


if __name__ == "__main__":
    main()
