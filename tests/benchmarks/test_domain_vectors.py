"""The benchmark of domain vectors: its statistics, and two of its cells on a slice of real data."""

import json
import lzma
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.domain_vectors.__main__ import (
    Limits,
    final_cells,
    in_precision,
    run_cells,
    write_table,
)
from benchmarks.domain_vectors.arms import ARMS, CONTROLS, vectors_of, write_random
from benchmarks.domain_vectors.cells import QUESTIONS, Cell, Setting, texts_of
from benchmarks.domain_vectors.domains import (
    DECISION,
    DOMAINS,
    GENERAL,
    SELECTION,
    Domain,
    nearest_texts,
    parts,
    runs_of_words,
)
from benchmarks.domain_vectors.scores import Parts, Scores, precisions, read_scores, table
from benchmarks.domain_vectors.vector_facts import PLACES, question_counts
from flows.common.encoding import resolve_vectors
from flows.common.parameters import CorpusParameters, DataParameters
from flows.common.splits import ingest_dataset
from infra.cluster.allotment import Resources
from tasks.embeddings.advice.dataset_words import DatasetWords, MissingWords, Words
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.source import JoinedVectors
from tasks.embeddings.formats.word_vectors import WordSet
from tests.factories.stages import in_flow

MEDICAL = DOMAINS["medical"]


def test_halves_have_whole_articles() -> None:
    titles = ["", "Rome", "", "", "", "Rome"]
    texts = ["a", "of Rome", "b", "c", "d", "of Rome"]
    part = parts(MEDICAL, titles, texts)
    assert part[1] == part[5] == GENERAL
    assert sorted(part) == sorted([DECISION] * 2 + [GENERAL] * 2 + [SELECTION] * 2)
    assert parts(MEDICAL, titles[::-1], texts[::-1]) == part[::-1], "the order does not matter"
    oxygen = parts(DOMAINS["biology"], ["Oxygen"] * 3 + ["Pharmacy", "Rome"], list("abcde"))
    assert len(set(oxygen[:3])) == 1 and {oxygen[0], oxygen[3]} == {DECISION, SELECTION}


def test_texts_of_a_topic_are_nearest() -> None:
    contexts = [
        ("Bird", "A bird lays an egg in a nest"),
        ("Bird", "The wing of a bird"),
        ("Rome", "The emperor of the empire"),
        ("Rome", "An emperor lays a law in the empire"),
        ("Rome", "The wing of the palace, an egg of marble and a nest"),
    ]
    texts = ["the empire of an emperor\n", "a bird has a nest\n", "the of a\n"]
    assert nearest_texts(contexts, frozenset({"Bird"}), texts, 1) == ["a bird has a nest\n"]


def test_random_vectors_replace_only_new_words(tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).normal(0, 2, (1000, 8)).astype(np.float32)
    words = [f"w{number}" for number in range(1000)]
    sets = []
    for seed in (0, 1):
        write_random(tmp_path, WordSet(words, vectors), frozenset(words[:500]), seed)
        written = load_vectors(str(tmp_path / "vectors.parquet"))
        assert written.words == words
        np.testing.assert_array_equal(written.vectors[:500], vectors[:500])
        sets.append(written.vectors[500:])
    lengths = [np.linalg.norm(each, axis=1) for each in (vectors[500:], *sets)]
    np.testing.assert_allclose(lengths[1:], [lengths[0]] * 2, rtol=1e-5)
    for one, other in ((sets[0], vectors[500:]), (sets[1], vectors[500:]), sets):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.1


def test_texts_of_one_origin_share_runs_of_words() -> None:
    context = "Oxygen is a chemical element with symbol O and atomic number 8."
    for text, shared in (
        ("It is said that oxygen (is) a chemical element, with symbol “O”, of great use", True),
        ("Oxygen is a chemical element with number 8", False),
        ("Oxygen is", False),
    ):
        assert shared != set(runs_of_words(text)).isdisjoint(runs_of_words(context))


def write_cell(
    out: Path, cell: Cell, f1: list[float], validation: float, precision: str = "bfloat16"
) -> None:
    """The file of a finished cell."""
    training = {"epochs": cell.epochs, "seed": cell.seed, "precision": precision}
    counts = {"missing_in_question": 1, "missing_in_answer": 0, "missing_nearby": 2, "missing": 2}
    facts = {
        "config": {"name": "char", "training": training},
        "vectors": {
            "sets": [{"anchors": 900, "cosine": 0.625} if cell.arm == "procrustes" else {}],
            "added": 0 if cell.arm == "glove" else 1234,
            "questions": {SELECTION: counts, DECISION: counts, GENERAL: counts},
        },
        "history": [{"validation/f1": validation}],
    }
    columns = {"id": [f"q{number}" for number in range(len(f1))], "f1": pa.array(f1, pa.float32())}
    table = pa.table(columns, metadata={"facts": json.dumps(facts)})
    pq.write_table(table, out / cell.file)


def write_pilot(out: Path) -> None:
    """Four questions in each half, and two general ones; `mittens` and `gated` are best."""
    part = [SELECTION] * 4 + [DECISION] * 4 + [GENERAL] * 2
    outside = [True, *[False] * 9]
    ids = [f"q{number}" for number in range(len(part))]
    contexts = range(len(part))
    columns = {"id": ids, "context_id": contexts, "part": part, "outside_glove": outside}
    pq.write_table(pa.table(columns), out / QUESTIONS)
    best = {"glove": 0.5, "mittens": 0.75, "gated": 0.625}
    for arm in ("glove", *(arm for arm in ARMS if arm not in CONTROLS)):
        write_cell(out, Cell(arm, 0, 1), [best.get(arm, 0.25)] * 10, 60.0)
    write_cell(out, Cell("oracle", 0, 1), [1.0] * 10, 90.0)


def test_final_runs_take_the_best_arms(tmp_path: Path) -> None:
    write_pilot(tmp_path)
    cells = final_cells(tmp_path)
    assert len(cells) == 12 and cells[0] == Cell("glove", 0, 3)
    assert [cell.arm for cell in cells[:4]] == ["glove", "random", "mittens", "gated"]
    also = final_cells(tmp_path, ["contexts", "gated"])
    assert [cell.arm for cell in also if cell.seed == 2] == [
        *("glove", "random", "mittens", "gated", "contexts")
    ]
    for arm in ("glove", "continued"):
        (tmp_path / Cell(arm, 0, 1).file).unlink()
    with pytest.raises(SystemExit, match="no results of glove, continued"):
        final_cells(tmp_path)


def test_table_compares_with_glove(tmp_path: Path) -> None:
    write_pilot(tmp_path)
    arms = ("glove", "mittens", "random", "procrustes")
    write_table(tmp_path, [Cell(arm, 0, 1) for arm in arms], tmp_path / "table")
    result = json.loads((tmp_path / "table.json").read_text("utf-8"))
    glove, mittens, procrustes = result["table"]
    assert glove["decision: gain, 95 %"] == "reference"
    assert mittens["decision (4): F1"] == "75.00"
    assert mittens["decision: gain, 95 %"].startswith("+25.00 (+25.00 to +25.00)")
    assert mittens["outside GloVe (1): F1"] == "75.00"
    assert result["vectors"][-1] == {
        "vectors": procrustes["vectors"],
        "added words": "1,234",
        "anchors": "900",
        "mean cosine": "0.62",
        "missing in question": "2",
        "in answer": "0",
        "near the answer": "4",
        "any of these": "4",
    }
    text = (tmp_path / "table.md").read_text("utf-8")
    assert "1 epoch(s), seed(s) 0 (bfloat16)." in text and "over the 2 arms" in text
    assert "| Mittens | 1 |" in text


def test_table_has_the_seeds_that_all_arms_finished(tmp_path: Path) -> None:
    write_pilot(tmp_path)
    cells = [Cell(arm, seed, 1) for seed in (0, 1) for arm in ("glove", "gated")]
    write_cell(tmp_path, cells[2], [0.5] * 10, 60.0)
    for seeds in ("1", "2"):
        write_table(tmp_path, cells, tmp_path / "table")
        rows = json.loads((tmp_path / "table.json").read_text("utf-8"))["table"]
        assert [(row["vectors"], row["seeds"]) for row in rows] == [
            ("GloVe", seeds),
            ("gated", seeds),
        ]
        write_cell(tmp_path, cells[3], [0.5] * 10, 60.0)


def test_arms_of_a_seed_have_the_same_precision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pilot(tmp_path)
    for arm in ("glove", "gated"):
        write_cell(tmp_path, Cell(arm, 1, 1), [0.5] * 10, 60.0, "float32")
    cells = [Cell(arm, seed, 1) for arm in ("glove", "gated") for seed in (0, 1)]
    assert precisions(tmp_path, cells) == {0: "bfloat16", 1: "float32"}
    of_seed = [[cell for cell in cells if cell.seed == seed] for seed in (0, 1)]
    assert in_precision("bfloat16", tmp_path, cells, cells) == of_seed[0]
    assert capsys.readouterr().out == "", "no cell is left"
    left = [*cells, Cell("mittens", 1, 1), Cell("glove", 2, 1)]
    kept = in_precision("float32", tmp_path, cells, left)
    assert kept == [*of_seed[1], Cell("mittens", 1, 1), Cell("glove", 2, 1)]
    assert in_precision("bfloat16", tmp_path, cells, left) == [*of_seed[0], Cell("glove", 2, 1)]
    assert "Seed 1 has cells in float32. Its other cells need" in capsys.readouterr().out
    write_cell(tmp_path, Cell("gated", 1, 1), [0.5] * 10, 60.0)
    with pytest.raises(SystemExit, match=r"gated-seed-1.parquet was trained in bfloat16"):
        precisions(tmp_path, cells)


def test_star_is_by_the_corrected_p_value() -> None:
    """An interval that excludes zero gets no star if p is above 0.05 after the correction."""
    glove = np.full((1, 100), 50.0)
    weak = np.where(np.arange(100) < 60, 60.0, 40.0)[None]
    f1 = {"glove": glove, "mittens": weak, "procrustes": weak, "gated": glove + 20}
    scores = {arm: Scores(values, np.zeros(1), [{}]) for arm, values in f1.items()}
    _, mittens, _, gated = table(scores, Parts({"domain": np.ones(100, bool)}, np.arange(100)))
    assert mittens["domain: gain, 95 %"] == "+2.00 (+0.17 to +3.83)"
    assert float(mittens["domain: p (Holm)"]) > 0.05
    assert gated["domain: gain, 95 %"].endswith("*")


def test_answers_to_other_questions_are_refused(tmp_path: Path) -> None:
    write_pilot(tmp_path)
    cell = Cell("gated", 0, 1)
    answers = pq.read_table(tmp_path / cell.file)
    pq.write_table(answers.take(list(range(9, -1, -1))), tmp_path / cell.file)
    with pytest.raises(SystemExit, match=r"gated-seed-0.parquet: the answers are to other"):
        read_scores(tmp_path, [cell])


def test_questions_with_a_missing_word_by_part() -> None:
    asked = [MissingWords(Words(["zika"])), MissingWords(in_answer=Words(["zika"])), MissingWords()]
    nothing: Counter[str] = Counter()
    dataset = DatasetWords(Counter(zika=2, the=9), nothing, nothing, nothing, asked)
    counts = question_counts(dataset, Words(["the"]), [DECISION, DECISION, GENERAL])
    assert counts == {
        DECISION: {
            "all": 2,
            "missing_in_question": 1,
            "missing_in_answer": 1,
            "missing_nearby": 0,
            "missing": 2,
        },
        GENERAL: {"all": 1, **dict.fromkeys(PLACES, 0)},
    }
    filled = question_counts(dataset, Words(["the", "zika"]), [DECISION] * 3)
    assert filled[DECISION]["missing"] == 0


@pytest.fixture
def domain(tmp_path: Path, shared_data: Path) -> Domain:
    """A few paragraphs of SQuAD, the beginnings of some papers, and a part of `medquad`."""
    squad = json.loads((shared_data / "squad/dev-v1.1.json").read_text("utf-8"))["data"]
    for article in squad:
        del article["paragraphs"][1:]
    papers = json.loads((shared_data / "qa/covid_qa.json").read_text("utf-8"))["data"][:6]
    for paper in papers:
        (paragraph,) = paper["paragraphs"]
        paragraph["context"] = paragraph["context"][:3000]
        paragraph["qas"] = [
            qa
            for qa in paragraph["qas"]
            if qa["answers"][0]["answer_start"] + len(qa["answers"][0]["text"]) < 3000
        ]
    files = {"train": squad[:6], "squad": squad[6:10], "papers": papers}
    for name, articles in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"data": articles}), encoding="utf-8")
    with lzma.open(shared_data / "corpora/medquad.txt.xz", "rt", encoding="utf-8") as lines:
        (tmp_path / "texts.txt").write_text("".join(islice(lines, 300)), encoding="utf-8")
    train, *dev = (str(tmp_path / f"{name}.json") for name in files)
    data = DataParameters(dataset="slice", train_files=[train], dev_files=dev, validation_share=0.3)
    texts = CorpusParameters(files=[str(tmp_path / "texts.txt")])
    return Domain("medical", data, lambda: texts, MEDICAL.has_title)


@pytest.mark.heavy
@pytest.mark.full
@pytest.mark.timeout(1500)
def test_vectors_of_all_arms(root: Path, prefect_server: None, domain: Domain) -> None:
    """Every arm keeps all of GloVe's words; their random controls have the same words."""

    def work() -> dict[str, Any]:
        texts = texts_of(domain, ingest_dataset(domain.data))
        return {name: resolve_vectors(vectors_of(arm, texts, 0)) for name, arm in ARMS.items()}

    vectors = in_flow(work, "arms")
    joined = {name for name, source in vectors.items() if isinstance(source, JoinedVectors)}
    assert joined == {"concatenated", "gated", "random-concatenated"}
    own, random = (
        load_vectors(str(source.parts[1]))
        for source in (vectors["concatenated"], vectors["random-concatenated"])
    )
    assert own.words == random.words and not np.allclose(own.vectors, random.vectors)
    sets = {n: load_vectors(str(source)) for n, source in vectors.items() if n not in joined}
    sizes = {name: len(word_set.words) for name, word_set in sets.items()}
    assert all(word_set.rows.keys() >= sets["glove"].rows.keys() for word_set in sets.values())
    assert sizes["random"] == sizes["a-la-carte"] > sizes["glove"]
    assert sizes["random-oracle"] == sizes["oracle"] > sizes["contexts"] >= sizes["a-la-carte"]
    given = sets["glove"].vectors[sets["glove"].rows["virus"]]
    for name in ("random", "a-la-carte", "procrustes", "contexts", "oracle"):
        kept = sets[name].vectors[sets[name].rows["virus"]]
        np.testing.assert_array_equal(kept, given)
    for name in ("mittens", "continued"):
        assert not np.array_equal(sets[name].vectors[sets[name].rows["disease"]], given)


@pytest.mark.heavy
@pytest.mark.full
@pytest.mark.timeout(1500)
def test_cells_are_kept_and_not_run_again(
    root: Path, prefect_server: None, ray_cluster: None, domain: Domain, tmp_path: Path
) -> None:
    changes = {"hidden_size": 8, "window_stride": 200, "max_answer_tokens": 60}
    out = tmp_path / "results"
    setting = Setting(domain, out, changes, Resources(cpus_per_worker=1))
    cells = [Cell("glove", 0, 1), Cell("gated", 0, 1)]
    failing = replace(setting, changes={**changes, "batch_size": 0})
    assert run_cells(failing, cells, Limits()) == cells, "a failure does not end the others"
    assert not list(out.glob("*seed*"))
    assert run_cells(setting, cells, Limits(cells=1)) == []
    assert [file.name for file in out.glob("*seed*")] == [cells[0].file]
    before = (out / cells[0].file).stat().st_mtime_ns
    run_cells(setting, cells, Limits(minutes=60))
    assert (out / cells[0].file).stat().st_mtime_ns == before
    answers = pq.read_table(out / cells[1].file)
    questions = pq.read_table(out / QUESTIONS)
    assert answers["id"].to_pylist() == questions["id"].to_pylist()
    assert set(questions["part"].to_pylist()) == {DECISION, SELECTION, GENERAL}
    assert [str(kind) for kind in answers.schema.types].count("string") == 1, "only ids are text"
    facts = json.loads(answers.schema.metadata[b"facts"])
    assert facts["config"]["model"]["vector_gate"] == 50
    _, own = facts["vectors"]["sets"]
    assert own["method"] == "skipgram" and facts["vectors"]["added"] > 0
    assert facts["vectors"]["questions"][DECISION]["all"] > 0
    write_table(out, cells, out.with_name("table"))
    rows = json.loads((tmp_path / "table.json").read_text("utf-8"))["table"]
    assert [row["vectors"] for row in rows] == ["GloVe", "gated"]
