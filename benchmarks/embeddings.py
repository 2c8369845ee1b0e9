"""Speed and memory of each method of training word vectors, compared with gensim's bare call.

Usage: python -m benchmarks.embeddings --corpus PATH/enwiki2015-64M.txt.xz [--words 2000000]
    [--out OUT.json]

Each measurement runs in its own process, whose peak memory is the kernel's VmHWM. gensim's own call
reads the same tokenised file with the same settings; the two implementations of a method run in
turn. GloVe is compared with the same steps on a sample of the same pairs, vectorised in torch (one
batch at a time, index_add); its memory includes torch's. With --out, a table (.md) is written next
to the JSON file.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.machine import machine, peak_mib, print_result, today
from benchmarks.common.tables import markdown
from tasks.embeddings.training.config import METHODS, EmbeddingParameters
from tasks.embeddings.training.corpus import prepare_corpus, read_vocabulary
from tasks.embeddings.training.corpus_files import TextFile, read_texts

# Each method is imported in the process that measures it, because imports count as its memory.

TORCH_PAIRS = 400_000
BATCH = 4096


def ours(corpus: Path, facts: dict[str, Any], parameters: EmbeddingParameters) -> dict[str, Any]:
    """Measurements of the project's own training."""
    from tasks.embeddings.training.glove import train_glove
    from tasks.embeddings.training.word2vec import train_by_gensim

    if parameters.method == "glove":
        return train_glove(corpus, facts, parameters, None, corpus.parent)[1]
    return train_by_gensim(corpus, facts, parameters, None)[1]


def bare_gensim(
    corpus: Path, facts: dict[str, Any], parameters: EmbeddingParameters
) -> dict[str, Any]:
    """Measurements of gensim's bare call; the vocabulary is built before the clock starts."""
    from tasks.embeddings.training.word2vec import make_model, with_buckets

    counts = read_vocabulary(corpus, parameters.min_count)
    model = make_model(with_buckets(counts, parameters, None))
    model.build_vocab_from_freq(counts, corpus_count=facts["paragraphs"])
    began = time.perf_counter()
    file = str(corpus / "corpus.txt")
    model.train(corpus_file=file, total_words=facts["words"], epochs=parameters.epoch_count)
    seconds = time.perf_counter() - began
    return {"words_per_second": round(facts["words"] * parameters.epoch_count / seconds)}


def torch_glove(corpus: Path, facts: dict[str, Any], parameters: EmbeddingParameters) -> Any:
    """Measurements of GloVe's steps on a sample of the corpus' pairs, batched in torch."""
    import torch

    from tasks.embeddings.training.glove import LEARNING_RATE

    words = read_vocabulary(corpus, parameters.min_count)
    size, dimension = len(words), parameters.dimension + 1
    state = [(torch.rand(size, dimension) - 0.5) / parameters.dimension for _ in range(2)]
    squares = [torch.ones(size, dimension) for _ in range(2)]
    pairs = sample_pairs(corpus, list(words), parameters)
    rows, columns = (torch.from_numpy(pairs[side].astype(np.int64)) for side in ("i", "j"))
    counts = torch.from_numpy(pairs["count"].copy())
    logs, weights = counts.log(), (counts / parameters.x_max).pow(parameters.alpha).clamp(max=1)
    began = time.perf_counter()
    for first in range(0, len(pairs), BATCH):
        part = slice(first, first + BATCH)
        indices = rows[part], columns[part]
        w, c = (table[index] for table, index in zip(state, indices, strict=True))
        difference = (w[:, :-1] * c[:, :-1]).sum(1) + w[:, -1] + c[:, -1] - logs[part]
        weighted = (weights[part] * difference)[:, None]
        bias = torch.ones(len(weighted), 1)
        for table, square, index, other in zip(state, squares, indices, (c, w), strict=True):
            step = LEARNING_RATE * weighted * torch.cat([other[:, :-1], bias], 1)
            table.index_add_(0, index, -step / square[index].sqrt())
            square.index_add_(0, index, step**2)
    return {"pairs_per_second": round(len(pairs) / (time.perf_counter() - began))}


def sample_pairs(corpus: Path, words: Sequence[str], parameters: EmbeddingParameters) -> Any:
    """At most TORCH_PAIRS pairs: a random sample of GloVe's training pairs, and their mirrors."""
    from tasks.embeddings.training.cooccurrence import count_pairs
    from tasks.embeddings.training.glove import PAIR, scatter

    rows, rng = {word: row for row, word in enumerate(words)}, np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        counting = 0, rows, parameters.window_size, parameters.memory_mb << 20, Path(folder)
        runs = count_pairs(corpus, *counting)
        (file,) = scatter(runs, len(rows), 1, Path(folder), rng)
        pairs = np.fromfile(file, PAIR)
    rng.shuffle(pairs)
    sample = pairs[: TORCH_PAIRS // 2]
    mirrors = sample.copy()
    mirrors["i"], mirrors["j"] = sample["j"], sample["i"]
    return np.concatenate([sample, mirrors])


IMPLEMENTATIONS: dict[str, Callable[[Path, dict[str, Any], EmbeddingParameters], Any]] = {
    "ours": ours,
    "gensim": bare_gensim,
    "torch": torch_glove,
}


def measure_here(implementation: str, corpus: Path, settings: str) -> None:
    """Measure one implementation in this process, and print the result as the last line."""
    facts = json.loads((corpus / "facts.json").read_text(encoding="utf-8"))
    parameters = EmbeddingParameters.model_validate_json(settings)
    result = IMPLEMENTATIONS[implementation](corpus, facts, parameters)
    print(json.dumps({**result, "peak_mib": peak_mib()}))


def measure(implementation: str, corpus: Path, parameters: EmbeddingParameters) -> Any:
    """The result that `measure_here` prints in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.embeddings", "--implementation", implementation]
    command += ["--corpus", str(corpus), "--settings", parameters.model_dump_json()]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[-1])


def prepare(folder: Path, source: Path, words: int) -> dict[str, Any]:
    """Tokenise the first `words` words of a text file, and return facts about the corpus."""
    text = folder / "part.txt"
    with text.open("w", encoding="utf-8") as out:
        remaining = words
        for line in islice(read_texts(TextFile(source)), words):
            out.write(line.rstrip("\n") + "\n")
            remaining -= line.count(" ") + 1
            if remaining <= 0:
                break
    facts = prepare_corpus(folder, [TextFile(text)], lower_case=True)
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    return facts


def compare(
    folder: Path, methods: Sequence[str], dimension: int, epochs: int, repeats: int
) -> dict[str, Any]:
    """Run both implementations of each method in turn: the fastest run of each, and the median
    ratio of the two."""
    rows: dict[str, Any] = {}
    for method in methods:
        first, other = names = implementations_of(method)
        parameters = EmbeddingParameters.model_validate(
            {"method": method, "dimension": dimension, "epochs": epochs}
        )
        runs = [{name: measure(name, folder, parameters) for name in names} for _ in range(repeats)]
        unit = "pairs_per_second" if method == "glove" else "words_per_second"
        best = {name: max((run[name] for run in runs), key=lambda run: run[unit]) for name in names}
        ratio = float(np.median([run[first][unit] / run[other][unit] for run in runs]))
        rows[method] = {**best, "ratio": round(ratio, 3)}
        print(method, json.dumps(rows[method]), flush=True)
    return rows


def implementations_of(method: str) -> tuple[str, str]:
    """The two implementations that are compared for a method."""
    return "ours", "torch" if method == "glove" else "gensim"


def table(methods: dict[str, Any]) -> list[dict[str, str]]:
    """A row for each method and implementation."""
    return [
        {
            "method": method,
            "implementation": name,
            "words or pairs per second": f"{_rate(result[name]):,}",
            "peak memory, MiB": f"{result[name]['peak_mib']:,}",
            "relative to the other": "" if number else f"{result['ratio']:.3f}",
        }
        for method, result in methods.items()
        for number, name in enumerate(implementations_of(method))
    ]


def _rate(result: dict[str, Any]) -> int:
    return int(result.get("words_per_second") or result["pairs_per_second"])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--corpus", type=Path, required=True, help="path of a text file, compressed or not"
    )
    parser.add_argument("--words", type=int, default=2_000_000, help="words read from the corpus")
    parser.add_argument("--dimension", type=int, default=100, help="embedding dimension")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each implementation")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    parser.add_argument("--implementation", help=argparse.SUPPRESS)
    parser.add_argument("--settings", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.implementation:
        measure_here(options.implementation, options.corpus, options.settings)
        return
    with tempfile.TemporaryDirectory() as folder:
        facts = prepare(Path(folder), options.corpus, options.words)
        print("corpus", json.dumps(facts), flush=True)
        rows = compare(
            Path(folder), options.methods, options.dimension, options.epochs, options.repeats
        )
    result = {
        "command": f"python -m benchmarks.embeddings --corpus {options.corpus.name} "
        f"--words {options.words} --dimension {options.dimension} --epochs {options.epochs} "
        f"--repeats {options.repeats} --methods {' '.join(options.methods)}",
        "date": today(),
        "machine": machine(),
        "corpus": {"file": options.corpus.name, **facts},
        "methods": rows,
    }
    print_result(result, options.out)
    if options.out:
        options.out.with_suffix(".md").write_text(markdown(table(rows)), encoding="utf-8")


if __name__ == "__main__":
    main()
