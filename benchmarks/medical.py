r"""Word vectors from medical texts: coverage of medical terms, neighbours, and models' answers.

These commands train the sets. BIDAFLOW_MIRROR is the folder with the data, and .bidaflow is the
folder that BIDAFLOW_ROOT names:

    T="bidaflow embeddings train --embedding.method fasttext --embedding.dimension 50"
    $T --corpus.files enwiki2015-64M --name wiki-fasttext
    $T --corpus.files medquad --name medquad-fasttext
    $T --corpus.files medquad,enwiki2015-16M.txt --name mixed-fasttext
    $T --corpus.files medquad --start .bidaflow/embeddings/wiki-fasttext/vectors.parquet \
        --name continued-fasttext

The mixed set uses the first quarter of Wikipedia's lines, so that medicine has more weight:
`xz -dc enwiki2015-64M.txt.xz | head -n 211002 > enwiki2015-16M.txt`. The next command trains the
models; run it again with only the last set and --training.unknown-words subword:

    bidaflow compare \
      --data '[{"dataset": "medical", "train_files": ["squad-v1.1-recovered"],
        "dev_files": ["squad-v1.1-recovered", "covid_qa"], "overlap": "leave out",
        "validation_share": 0}]' --variants char --seeds 0,1 --vectors glove-6b-50d \
        --vectors .bidaflow/embeddings/wiki-fasttext/vectors.parquet \
        --vectors .bidaflow/embeddings/medquad-fasttext/vectors.parquet \
        --vectors .bidaflow/embeddings/mixed-fasttext/vectors.parquet \
        --vectors .bidaflow/embeddings/continued-fasttext/vectors.parquet \
        --training.window-stride 200 --training.max-answer-tokens 60 --training.epochs 1 \
        --training.optimizer adam --training.learning-rate 0.001 --training.precision bfloat16 \
        --resources.workers 2 --resources.cpus-per-worker 1

Usage: python -m benchmarks.medical .bidaflow/embeddings/*-fasttext/vectors.parquet [--out OUT.json]

This program collects the results. Of the comparisons named "medical", it uses the newest for each
policy for unknown words. It evaluates the sets on covid_qa, next to GloVe; the medical terms are
the words of covid_qa that are much more frequent there than in Wikipedia. It groups the models'
answers by question id into those for covid_qa and those for SQuAD's dev set, and adds the answers
to questions with words outside GloVe. With --out, a table (.md) and a picture (.png) are written
next to the JSON file.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

from benchmarks.common.evaluated_sets import Evaluation, evaluate_sets
from benchmarks.common.figures import save
from benchmarks.common.machine import machine, print_result, today
from benchmarks.common.tables import bars, format_gain, markdown
from benchmarks.trainings.finished import (
    cells,
    complete_comparisons,
    finished_folders,
    input_folders,
)
from flows.common.encoding import find_vectors
from infra.artifacts.manifest import read_manifest, stages_folder
from models.arrays import BoolArray, FloatArray, IntArray
from tasks.embeddings.formats.select import load_vectors, packaged_words
from tasks.embeddings.formats.source import PACKAGED
from tasks.evaluation.bootstrap import paired_gain
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.slices import questions_with_oov_words
from tasks.text.split_texts import form_counts

DATASET, COMPARED = "covid_qa", "medical"
WIKIPEDIA = "enwiki2015-64M.txt.xz"
LEAST_COUNT, LEAST_RATIO = 5, 20
TERMS = (
    *("diabetes", "insulin", "hypertension", "pneumonia", "coronavirus", "antibody"),
    *("vaccine", "influenza", "inflammation", "receptor", "antiviral", "asthma"),
)
"""Words whose neighbours are shown."""

NEIGHBOURS = 5


def newest_stage_of(stage: str, file: str) -> Path:
    """The newest folder of a stage that was made from this file alone."""
    for folder in reversed(finished_folders(stage)):
        origins = read_manifest(folder)["made_from"]
        if [Path(item.get("file") or item.get("path", "")).name for item in origins] == [file]:
            return folder
    sys.exit(
        f"There is no stage {stage} of {file} under {stages_folder()}. "
        "Run the commands in the docstring of this program first."
    )


def lower_case(counts: Mapping[str, int]) -> Counter[str]:
    """Counts of the words in lower case."""
    lowered: Counter[str] = Counter()
    for form, count in counts.items():
        lowered[form.lower()] += count
    return lowered


def medical_terms(counts: Mapping[str, int], common: Mapping[str, int]) -> dict[str, int]:
    """Alphabetic words of `counts`, with their counts, that occur at least `LEAST_COUNT` times and
    are at least `LEAST_RATIO` times as frequent as in `common`."""
    total, common_total = sum(counts.values()), sum(common.values())
    return {
        word: count
        for word, count in counts.items()
        if word.isalpha()
        and count >= LEAST_COUNT
        and count / total >= LEAST_RATIO * (common.get(word, 0) + 1) / common_total
    }


def coverage(source: str, terms: Mapping[str, int]) -> dict[str, Any]:
    """Share of the terms that have their own vector, and whether n-grams compose the others."""
    word_set = load_vectors(str(find_vectors(source)))
    known = [term for term in terms if term in word_set.rows]
    missing = sorted((term for term in terms if term not in word_set.rows), key=lambda t: -terms[t])
    return {
        "terms": len(terms),
        "covered": len(known) / max(len(terms), 1),
        "tokens_covered": sum(terms[term] for term in known) / max(sum(terms.values()), 1),
        "composes_others": word_set.subwords is not None,
        "missing": missing[:20],
    }


class ComparedModel(NamedTuple):
    """A compared model: a variant with a set of vectors and a policy for unknown words."""

    vectors: str
    variant: str
    unknown_words: str


def trained(dataset: str) -> dict[ComparedModel, list[Path]]:
    """Folders of the stage `train`, one per seed, of a dataset's newest comparison for each policy;
    earlier comparisons may have used other epochs or flags."""
    newest: dict[str, dict[ComparedModel, list[Path]]] = {}
    for comparison in complete_comparisons():
        models = models_of(comparison, dataset)
        for policy in {model.unknown_words for model in models}:
            newest[policy] = {m: models[m] for m in models if m.unknown_words == policy}
    return {model: folders for models in newest.values() for model, folders in models.items()}


def models_of(comparison: Path, dataset: str) -> dict[ComparedModel, list[Path]]:
    """Folders of the stage `train`, one per seed, of a comparison's cells for a dataset."""
    models = {}
    for cell, folders in cells(comparison):
        if cell["dataset"] == dataset:
            config = json.loads((folders[0] / "config.json").read_text(encoding="utf-8"))
            policy = config["model"]["unknown_words"]
            models[ComparedModel(cell["vectors"], cell["variant"], policy)] = folders
    return models


class Scores(NamedTuple):
    """EM and F1 (0 to 100) of each seed's answers, (seeds, n) each, and the contexts, (n,)."""

    context_of: IntArray
    em: FloatArray
    f1: FloatArray


def scores_by_part(folders: Sequence[Path], ids: set[str]) -> dict[str, Scores]:
    """Scores of the models' answers to the questions with these ids, to the other questions, and to
    all questions that have words outside GloVe in their text or answers."""
    tables = [pq.read_table(folder / "predictions.parquet") for folder in folders]
    context_of = tables[0]["context_id"].to_numpy()
    is_listed = np.array([key in ids for key in tables[0]["id"].to_pylist()])
    em, f1 = (
        100 * np.array([table[name].to_numpy() for table in tables], np.float64)
        for name in ("em", "f1")
    )
    outside = outside_glove(folders[0])
    parts = {DATASET: is_listed, "SQuAD dev": ~is_listed, "outside GloVe": outside}
    return {
        name: Scores(context_of[part], em[:, part], f1[:, part]) for name, part in parts.items()
    }


def outside_glove(trained: Path) -> BoolArray:
    """(n,) whether each dev question of a training, or its answers, has words outside GloVe."""
    *_, dev = (path for path in input_folders(trained, "data") if path.parent.name == "split")
    return questions_with_oov_words(load_split(dev), packaged_words())


def score_rows(scores: Mapping[ComparedModel, Mapping[str, Scores]]) -> list[dict[str, str]]:
    """A row per set, variant and policy: EM and F1 on each part, and the gain over GloVe."""
    rows = []
    for model, parts in scores.items():
        row = {**model._asdict(), "seeds": str(len(parts[DATASET].em))}
        with_glove = (m for m in scores if (m.vectors, m.variant) == (PACKAGED, model.variant))
        reference = next(with_glove, model)
        for part, own in parts.items():
            before, after = scores[reference][part].f1.mean(axis=0), own.f1.mean(axis=0)
            gain = None if reference == model else paired_gain(before, after, own.context_of)
            row |= {
                f"{part}: EM": over_seeds(own.em),
                f"{part}: F1": over_seeds(own.f1),
                f"{part}: F1 by seed": ", ".join(f"{f1:.2f}" for f1 in own.f1.mean(axis=1)),
                f"{part}: F1 gain, 95 %": format_gain(gain),
            }
        rows.append(row)
    return rows


def gain_rows(scores: Mapping[ComparedModel, Mapping[str, Scores]]) -> list[dict[str, str]]:
    """A row per pair of models: the F1 gain of the second over the first on each part."""
    rows = []
    for before, after in combinations(scores, 2):
        row = {"from": ", ".join(before), "to": ", ".join(after)}
        for part, own in scores[before].items():
            other = scores[after][part]
            f1s = (own.f1.mean(axis=0), other.f1.mean(axis=0))
            row[part] = format_gain(paired_gain(*f1s, own.context_of))
        rows.append(row)
    return rows


def over_seeds(scores: FloatArray) -> str:
    """Mean over all questions, with its standard deviation over the seeds."""
    means = scores.mean(axis=1)
    return f"{means.mean():.2f}" + (f" ± {means.std(ddof=1):.2f}" if len(means) > 1 else "")


def coverage_rows(coverages: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """A row per set."""
    return [
        {
            "vectors": name,
            "medical terms covered": f"{covered['covered']:.1%} of {covered['terms']:,}",
            "of their tokens": f"{covered['tokens_covered']:.1%}",
            "composes the others": "yes" if covered["composes_others"] else "no",
            "missing, for example": ", ".join(covered["missing"][:6]),
        }
        for name, covered in coverages.items()
    ]


def neighbour_rows(evaluations: Mapping[str, Evaluation]) -> list[dict[str, str]]:
    """A row per term, a column per set."""
    return [
        {"": term}
        | {
            name: ", ".join(word for word, _ in evaluation["neighbours"][term][:NEIGHBOURS])
            for name, evaluation in evaluations.items()
        }
        for term in TERMS
    ]


def draw(rows: Sequence[Mapping[str, str]], file: Path) -> None:
    """Draw F1 on both datasets as bars."""
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    parts = [DATASET, "SQuAD dev"]
    f1s = {
        part: {
            f"{row['vectors']}, {row['unknown_words']}": float(row[f"{part}: F1"].split()[0])
            for row in rows
        }
        for part in parts
    }
    bars(axes, "F1 by word vectors and policy for unknown words", f1s)
    axes.margins(y=0.15)
    axes.legend(fontsize="small", ncols=2)
    save(figure, file)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vectors", nargs="+", help="sets to evaluate next to GloVe")
    parser.add_argument("--out", type=Path, help="JSON file for the results; default: print only")
    arguments = parser.parse_args()
    sets = [PACKAGED, *arguments.vectors]
    corpus = newest_stage_of("prepare-corpus", WIKIPEDIA)
    wikipedia = pq.read_table(corpus / "words.parquet").to_pydict()
    models = trained(COMPARED)
    evaluations = evaluate_sets(sets, DATASET, TERMS)
    questions = newest_stage_of("ingest", f"{DATASET}.json")  # exists: the evaluation ingested it
    common = dict(zip(wikipedia["word"], wikipedia["count"], strict=True))
    terms = medical_terms(lower_case(form_counts([questions])), common)
    coverages = {
        name: coverage(source, terms) for name, source in zip(evaluations, sets, strict=True)
    }
    column: Any = pq.read_table(questions / "questions.parquet", columns=["id"])["id"]
    ids = set(column.to_pylist())
    scores = {model: scores_by_part(folders, ids) for model, folders in models.items()}
    rows, between = score_rows(scores), gain_rows(scores)
    result = {
        "command": "python -m benchmarks.medical " + " ".join(sys.argv[1:]),
        "date": today(),
        "machine": machine(),
        "answers": rows,
        "gains": between,
        "coverage": coverages,
        "neighbours": {name: evaluation["neighbours"] for name, evaluation in evaluations.items()},
    }
    print_result(result, arguments.out)
    if arguments.out:
        tables = [rows, between, coverage_rows(coverages), neighbour_rows(evaluations)]
        text = "\n".join(markdown(table) for table in tables if table)
        arguments.out.with_suffix(".md").write_text(text, encoding="utf-8")
        if rows:
            draw(rows, arguments.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
