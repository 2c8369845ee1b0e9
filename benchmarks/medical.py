r"""Word vectors from medical texts: coverage of medical terms, neighbours, and models' answers.

These commands train the sets. BIDAFLOW_MIRROR is the folder with the data, and .bidaflow is the
folder that BIDAFLOW_ROOT names:

    T="python -m flows.train_embeddings --embedding.method fasttext --embedding.dimension 50"
    $T --corpus.files enwiki2015-64M --name wiki-fasttext
    $T --corpus.files medquad --name medquad-fasttext
    $T --corpus.files medquad,enwiki2015-16M.txt --name mixed-fasttext
    $T --corpus.files medquad --start .bidaflow/embeddings/wiki-fasttext/vectors.parquet \
        --name continued-fasttext

The mixed set uses the first quarter of Wikipedia's lines, so that medicine has more weight:
`xz -dc enwiki2015-64M.txt.xz | head -n 211002 > enwiki2015-16M.txt`. The next command trains the
models; run it again with only the last set and --training.unknown-words subword:

    python -m flows.compare_variants \
      --data '[{"dataset": "medical", "train_files": ["squad-v1.1-recovered"],
        "dev_files": ["squad-v1.1-recovered", "covid_qa"], "overlap": "leave out",
        "validation_share": 0}]' --variants char --seeds 0,1 --vectors '[{"source": "glove-6b-50d"},
        {"source": ".bidaflow/embeddings/wiki-fasttext/vectors.parquet"},
        {"source": ".bidaflow/embeddings/medquad-fasttext/vectors.parquet"},
        {"source": ".bidaflow/embeddings/mixed-fasttext/vectors.parquet"},
        {"source": ".bidaflow/embeddings/continued-fasttext/vectors.parquet"}]' \
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
import numpy.typing as npt
import pyarrow.parquet as pq

from benchmarks.common.finished import cells, finished, made_from
from benchmarks.common.machine import machine, tell, today
from benchmarks.common.tables import bars, markdown
from benchmarks.judging import Judgement, judged
from flows.common.vectors import vector_input
from infra.artifacts.manifest import read_manifest, stages_folder
from tasks.embeddings.formats.select import load_vectors, packaged_words
from tasks.embeddings.formats.source import PACKAGED
from tasks.evaluation.bootstrap import paired_gain
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.slices import outside_vectors
from tasks.reports.comparison import told_gain
from tasks.text.build_vocabulary import form_counts

DATASET, COMPARED = "covid_qa", "medical"
WIKIPEDIA = "enwiki2015-64M.txt.xz"
LEAST_COUNT, LEAST_RATIO = 5, 20
TERMS = (
    *("diabetes", "insulin", "hypertension", "pneumonia", "coronavirus", "antibody"),
    *("vaccine", "influenza", "inflammation", "receptor", "antiviral", "asthma"),
)
"""Words whose neighbours are shown."""

NEIGHBOURS = 5


def made_of(stage: str, file: str) -> Path:
    """The newest folder of a stage that was made from this file alone."""
    for folder in reversed(finished(stage)):
        origins = read_manifest(folder)["made_from"]
        if [Path(one.get("file") or one.get("path", "")).name for one in origins] == [file]:
            return folder
    sys.exit(f"There is no {stage} of {file} under {stages_folder()}: run the commands above.")


def lower(counts: Mapping[str, int]) -> Counter[str]:
    """Counts of the words in lower case."""
    found: Counter[str] = Counter()
    for form, count in counts.items():
        found[form.lower()] += count
    return found


def medical_terms(counts: Mapping[str, int], common: Mapping[str, int]) -> dict[str, int]:
    """Alphabetic words of `counts`, with their counts, that occur at least `LEAST_COUNT` times and
    are at least `LEAST_RATIO` times as frequent as in `common`."""
    here, there = sum(counts.values()), sum(common.values())
    return {
        word: count
        for word, count in counts.items()
        if word.isalpha()
        and count >= LEAST_COUNT
        and count / here >= LEAST_RATIO * (common.get(word, 0) + 1) / there
    }


def coverage(source: str, terms: Mapping[str, int]) -> dict[str, Any]:
    """Share of the terms that have their own vector, and whether n-grams compose the others."""
    chosen = load_vectors(str(vector_input(source)))
    known = [term for term in terms if term in chosen.rows]
    missing = sorted((term for term in terms if term not in chosen.rows), key=lambda t: -terms[t])
    return {
        "terms": len(terms),
        "covered": len(known) / max(len(terms), 1),
        "tokens_covered": sum(terms[term] for term in known) / max(sum(terms.values()), 1),
        "spells_others": chosen.subwords is not None,
        "missing": missing[:20],
    }


class Compared(NamedTuple):
    """A compared model: a variant with a set of vectors and a policy for unknown words."""

    vectors: str
    variant: str
    unknown_words: str


def trained(dataset: str) -> dict[Compared, list[Path]]:
    """Folders of the stage `train`, one per seed, of a dataset's newest comparison for each policy;
    earlier comparisons may have used other epochs or flags."""
    newest: dict[str, dict[Compared, list[Path]]] = {}
    for comparison in finished("compare"):
        found = compared_in(comparison, dataset)
        for policy in {each.unknown_words for each in found}:
            newest[policy] = {c: found[c] for c in found if c.unknown_words == policy}
    return {each: folders for part in newest.values() for each, folders in part.items()}


def compared_in(comparison: Path, dataset: str) -> dict[Compared, list[Path]]:
    """Folders of the stage `train`, one per seed, of a comparison's cells for a dataset."""
    found = {}
    for cell, folders in cells(comparison):
        if cell["dataset"] == dataset:
            config = json.loads((folders[0] / "config.json").read_text(encoding="utf-8"))
            policy = config["model"]["unknown_words"]
            found[Compared(cell["vectors"], cell["variant"], policy)] = folders
    return found


class Answers(NamedTuple):
    """EM and F1 (0 to 100) of each seed's answers, (seeds, n) each."""

    em: npt.NDArray[np.floating]
    f1: npt.NDArray[np.floating]


def answers(folders: Sequence[Path], ids: set[str]) -> dict[str, Answers]:
    """Scores of the models' answers to the questions with these ids, to the other questions, and to
    all questions that have words outside GloVe in their text or answers."""
    tables = [pq.read_table(folder / "predictions.parquet") for folder in folders]
    here = np.array([each in ids for each in tables[0]["id"].to_pylist()])
    em, f1 = (
        100 * np.array([table[name].to_numpy() for table in tables], np.float64)
        for name in ("em", "f1")
    )
    parts = {DATASET: here, "SQuAD dev": ~here, "outside GloVe": outside_glove(folders[0])}
    return {name: Answers(em[:, part], f1[:, part]) for name, part in parts.items()}


def outside_glove(trained: Path) -> npt.NDArray[np.bool_]:
    """(n,) whether each dev question of a training, or its answers, has words outside GloVe."""
    *_, dev = (each for each in made_from(trained, "data") if each.parent.name == "split")
    return outside_vectors(load_split(dev), packaged_words())


def scores(found: Mapping[Compared, Mapping[str, Answers]]) -> list[dict[str, str]]:
    """A row per set, variant and policy: EM and F1 on each part, and the gain over GloVe."""
    rows = []
    for each, parts in found.items():
        row = {**each._asdict(), "seeds": str(len(parts[DATASET].em))}
        first = next((c for c in found if (c.vectors, c.variant) == (PACKAGED, each.variant)), each)
        for part, scored in parts.items():
            before, after = found[first][part].f1.mean(axis=0), scored.f1.mean(axis=0)
            gain = None if first == each else paired_gain(before, after)
            row |= {
                f"{part}: EM": over_seeds(scored.em),
                f"{part}: F1": over_seeds(scored.f1),
                f"{part}: F1 by seed": ", ".join(f"{f1:.2f}" for f1 in scored.f1.mean(axis=1)),
                f"{part}: F1 gain, 95 %": told_gain(gain),
            }
        rows.append(row)
    return rows


def gains(found: Mapping[Compared, Mapping[str, Answers]]) -> list[dict[str, str]]:
    """A row per pair of models: the F1 gain of the second over the first on each part."""
    return [
        {"from": ", ".join(before), "to": ", ".join(after)}
        | {
            part: told_gain(paired_gain(scored.f1.mean(axis=0), found[after][part].f1.mean(axis=0)))
            for part, scored in found[before].items()
        }
        for before, after in combinations(found, 2)
    ]


def over_seeds(scored: npt.NDArray[np.floating]) -> str:
    """Mean over all questions, with its standard deviation over the seeds."""
    means = scored.mean(axis=1)
    return f"{means.mean():.2f}" + (f" ± {means.std(ddof=1):.2f}" if len(means) > 1 else "")


def coverage_rows(found: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """A row per set."""
    return [
        {
            "vectors": name,
            "medical terms covered": f"{each['covered']:.1%} of {each['terms']:,}",
            "of their tokens": f"{each['tokens_covered']:.1%}",
            "spells the others": "yes" if each["spells_others"] else "no",
            "missing, for instance": ", ".join(each["missing"][:6]),
        }
        for name, each in found.items()
    ]


def neighbour_rows(judgements: Mapping[str, Judgement]) -> list[dict[str, str]]:
    """A row per term, a column per set."""
    return [
        {"": term}
        | {
            name: ", ".join(word for word, _ in each["neighbours"][term][:NEIGHBOURS])
            for name, each in judgements.items()
        }
        for term in TERMS
    ]


def draw(rows: Sequence[Mapping[str, str]], file: Path) -> None:
    """Draw F1 on both datasets as bars."""
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    parts = [DATASET, "SQuAD dev"]
    of = {
        part: {
            f"{row['vectors']}, {row['unknown_words']}": float(row[f"{part}: F1"].split()[0])
            for row in rows
        }
        for part in parts
    }
    bars(axes, "F1 by word vectors and what stands for unknown words", of)
    axes.margins(y=0.15)
    axes.legend(fontsize="small", ncols=2)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vectors", nargs="+")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    sets = [PACKAGED, *arguments.vectors]
    wikipedia = pq.read_table(made_of("prepare-corpus", WIKIPEDIA) / "words.parquet").to_pydict()
    models = trained(COMPARED)
    judgements = judged(sets, DATASET, TERMS)
    questions = made_of("ingest", f"{DATASET}.json")  # at the latest, the evaluation made it
    common = dict(zip(wikipedia["word"], wikipedia["count"], strict=True))
    terms = medical_terms(lower(form_counts([questions])), common)
    covered = {name: coverage(source, terms) for name, source in zip(judgements, sets, strict=True)}
    column: Any = pq.read_table(questions / "questions.parquet", columns=["id"])["id"]
    ids = set(column.to_pylist())
    found = {each: answers(folders, ids) for each, folders in models.items()}
    rows, between = scores(found), gains(found)
    result = {
        "command": "python -m benchmarks.medical " + " ".join(sys.argv[1:]),
        "date": today(),
        "machine": machine(),
        "answers": rows,
        "gains": between,
        "coverage": covered,
        "neighbours": {name: each["neighbours"] for name, each in judgements.items()},
    }
    tell(result, arguments.out)
    if arguments.out:
        tables = [rows, between, coverage_rows(covered), neighbour_rows(judgements)]
        text = "\n".join(markdown(table) for table in tables if table)
        arguments.out.with_suffix(".md").write_text(text, encoding="utf-8")
        if rows:
            draw(rows, arguments.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
