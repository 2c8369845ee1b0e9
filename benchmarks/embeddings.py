"""Words a second and memory of each method of training word vectors, gensim's bare call beside.

Use: python -m benchmarks.embeddings --corpus enwiki2015-64M.txt.xz --words 2000000 [--publish]

Each measurement runs in a process of its own, whose peak memory is told. gensim's own call reads
the same tokenised file with the same settings; where a method runs both ways, the two are run in
turn. GloVe is compared with the same steps vectorised in torch (a batch at a time, index_add).
With --publish the result is written to benchmarks/results/embeddings.json.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import machine, today
from tasks.embeddings.corpus import prepare_corpus, read_vocabulary
from tasks.embeddings.parameters import METHODS, EmbeddingParameters
from tasks.embeddings.texts import TextFile, read_texts

RESULT = Path(__file__).parent / "results" / "embeddings.json"
TORCH_PAIRS = 400_000
BATCH = 4096


def ours(corpus: Path, facts: dict[str, Any], parameters: EmbeddingParameters) -> dict[str, Any]:
    """The project's own training."""
    from tasks.embeddings.glove import train_glove
    from tasks.embeddings.word2vec import train_by_gensim

    if parameters.method == "glove":
        return train_glove(corpus, facts, parameters, None, corpus.parent)[1]
    return train_by_gensim(corpus, facts, parameters, None)[1]


def bare(corpus: Path, facts: dict[str, Any], parameters: EmbeddingParameters) -> dict[str, Any]:
    """gensim's call and nothing around it; the vocabulary is built before the clock starts."""
    from tasks.embeddings.word2vec import make_model

    model = make_model(parameters)
    model.build_vocab_from_freq(
        read_vocabulary(corpus, parameters.min_count), corpus_count=facts["paragraphs"]
    )
    began = time.perf_counter()
    file = str(corpus / "corpus.txt")
    model.train(corpus_file=file, total_words=facts["words"], epochs=parameters.passes)
    seconds = time.perf_counter() - began
    return {"words_per_second": round(facts["words"] * parameters.passes / seconds)}


def torch_glove(corpus: Path, facts: dict[str, Any], parameters: EmbeddingParameters) -> Any:
    """GloVe's steps on random pairs, batched in torch."""
    import torch

    size, dimension = len(read_vocabulary(corpus, parameters.min_count)), parameters.dimension + 1
    state = [torch.rand(size, dimension) - 0.5 for _ in range(2)]
    squares = [torch.ones(size, dimension) for _ in range(2)]
    rows, columns = torch.randint(size, (2, TORCH_PAIRS))
    logs, weights = torch.rand(TORCH_PAIRS), torch.rand(TORCH_PAIRS)
    began = time.perf_counter()
    for first in range(0, TORCH_PAIRS, BATCH):
        part = slice(first, first + BATCH)
        indices = rows[part], columns[part]
        w, c = (table[index] for table, index in zip(state, indices, strict=True))
        difference = (w[:, :-1] * c[:, :-1]).sum(1) + w[:, -1] + c[:, -1] - logs[part]
        pull = (weights[part] * difference)[:, None]
        bias = torch.ones(len(pull), 1)
        for table, square, index, other in zip(state, squares, indices, (c, w), strict=True):
            gradient = pull * torch.cat([other[:, :-1], bias], 1)
            table.index_add_(0, index, -0.05 * gradient / square[index].sqrt())
            square.index_add_(0, index, gradient**2)
    return {"pairs_per_second": round(TORCH_PAIRS / (time.perf_counter() - began))}


WAYS: dict[str, Callable[[Path, dict[str, Any], EmbeddingParameters], Any]] = {
    "ours": ours,
    "gensim": bare,
    "torch": torch_glove,
}


def one(way: str, corpus: Path, settings: str) -> None:
    """In a process of its own: measure, and print what was found as the last line."""
    facts = json.loads((corpus / "facts.json").read_text(encoding="utf-8"))
    found = WAYS[way](corpus, facts, EmbeddingParameters.model_validate_json(settings))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**found, "peak_memory_bytes": peak}))


def measure(way: str, corpus: Path, parameters: EmbeddingParameters) -> Any:
    """What `one` prints."""
    command = [sys.executable, "-m", "benchmarks.embeddings", "--one", way]
    command += ["--corpus", str(corpus), "--settings", parameters.model_dump_json()]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(told.splitlines()[-1])


def prepare(folder: Path, source: Path, words: int) -> dict[str, Any]:
    """Tokenise the first `words` words of a text file."""
    text = folder / "part.txt"
    with text.open("w", encoding="utf-8") as out:
        left = words
        for line in islice(read_texts(TextFile(source)), words):
            out.write(line.rstrip("\n") + "\n")
            left -= line.count(" ") + 1
            if left <= 0:
                break
    facts = prepare_corpus(folder, [TextFile(text)], lower_case=True)
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    return facts


def compare(folder: Path, dimension: int, epochs: int, repeats: int) -> dict[str, Any]:
    """Every method, ours and the other way in turn; of each the fastest run."""
    rows: dict[str, Any] = {}
    for method in METHODS:
        parameters = EmbeddingParameters.model_validate(
            {"method": method, "dimension": dimension, "epochs": epochs}
        )
        ways = ("ours", "torch" if method == "glove" else "gensim")
        runs = [{way: measure(way, folder, parameters) for way in ways} for _ in range(repeats)]
        unit = "pairs_per_second" if method == "glove" else "words_per_second"
        best = {way: max((run[way] for run in runs), key=lambda found: found[unit]) for way in ways}
        ratio = float(np.median([run[ways[0]][unit] / run[ways[1]][unit] for run in runs]))
        rows[method] = {**best, "ratio": round(ratio, 3)}
        print(method, json.dumps(rows[method]), flush=True)
    return rows


def main() -> None:
    """Measure and print, and with --publish write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--words", type=int, default=2_000_000)
    parser.add_argument("--dimension", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--settings", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one, options.corpus, options.settings)
        return
    with tempfile.TemporaryDirectory() as folder:
        facts = prepare(Path(folder), options.corpus, options.words)
        print("corpus", json.dumps(facts), flush=True)
        rows = compare(Path(folder), options.dimension, options.epochs, options.repeats)
    if options.publish:
        told = {
            "command": "python -m benchmarks.embeddings " + " ".join(sys.argv[1:]),
            "machine": machine(),
            "date": today(),
            "corpus": {"file": options.corpus.name, **facts},
            "methods": rows,
        }
        RESULT.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
