"""The error report on a run, for a handwritten split and for the real CS224n split."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.data.ingest import ingest_articles
from tasks.data.readers import read_articles
from tasks.data.schema import Answer, Article, Paragraph, Question
from tasks.evaluation.evaluate import load_split, read_predictions
from tasks.reports.error_report import kinds_of, write_error_report
from tasks.reports.variant_result import VariantResult
from tests.factories.html import Page, assert_self_contained, visible_text
from tests.factories.runs import untrained_run
from tests.factories.splits import ingest, write_split

SPANS = [(0, 4), (0, 0), (-1, -1), (0, 0)]  # too long; should be none; none; wrong
CORRECT = [(0, 1), (-1, -1), (1, 2), (1, 1)]
KNOWN = ["ada", "lovelace", "wrote", "who", "notes", "?"]


@pytest.fixture
def split(tmp_path: Path) -> Path:
    folder = tmp_path / "split"
    folder.mkdir()
    return write_split(folder)


def error_page(
    folder: Path,
    split: Path,
    variant: str,
    dataset: str = "made",
    url: str | None = None,
    facts: dict[str, Any] | None = None,
) -> str:
    """Write the error report of a run; returns the page."""
    file, loaded = folder / "errors.html", load_split(split)
    run = VariantResult(
        variant,
        folder,
        facts={"run_url": url, **(facts or {})},
        config=json.loads((folder / "model" / "config.json").read_text())["variant"],
        history=[],
        answers=read_predictions(folder / "predictions.parquet", loaded, variant),
    )
    write_error_report(file, dataset, run, loaded)
    return file.read_text(encoding="utf-8")


def test_unknown_answers_are_not_shown_as_none(tmp_path: Path) -> None:
    """A dropped question without answers has one, unlike an unanswerable question."""
    dropped = Question(id="dropped", question="When?", answers=[])
    none = Question(id="none", question="Why?", answers=[], is_impossible=True)
    paragraph = Paragraph(context="Ada wrote", qas=[dropped, none])
    (tmp_path / "split").mkdir()
    ingest_articles([Article(paragraphs=[paragraph])], tmp_path / "split")
    run = untrained_run(tmp_path / "run", tmp_path / "split", [(-1, -1), (0, 0)], "char", KNOWN)
    text = visible_text(error_page(run, tmp_path / "split", "char"))
    assert "Predicted answer no answer Annotated answers unknown" in text
    assert "Predicted answer Ada Annotated answers no answer" in text


def drawings(page: str) -> list[ET.Element]:
    return [ET.fromstring(svg) for svg in re.findall(r"<svg class=\"heatmap.*?</svg>", page, re.S)]


def test_shows_error_kinds_slices_and_marked_errors(tmp_path: Path, split: Path) -> None:
    run = untrained_run(tmp_path / "run", split, SPANS, "char", KNOWN)
    loaded = load_split(split)
    columns = read_predictions(run / "predictions.parquet", loaded, "char")
    assert kinds_of(columns, loaded).tolist() == ["partial", "spurious", "missed", "wrong"]
    page = error_page(run, split, "char", url="http://127.0.0.1:5000/#/run")
    Page(page)
    text = visible_text(page)
    for row in (
        "Predicted an answer, but the question is unanswerable 1 25.0",
        "Predicted no answer, but the question is answerable 1 25.0",
        "Wrong span, no word in common with an annotated answer 1 25.0",
        "Wrong span, some words in common with an annotated answer 1 25.0",
        "answerable 3 0.0",
        "(the run's word vectors) Questions char EM, % F1, % some 3",
        "Questions 4 Errors 4 100.0 %",
    ):
        assert row in text
    assert '<mark class="predicted">Ada</mark> Lovelace' in page
    assert '<mark class="both">Ada Lovelace</mark><mark class="predicted">  wrote' in page
    assert 'href="http://127.0.0.1:5000/#/run"' in page


def test_explains_missing_oov_slice_without_vectors(tmp_path: Path, split: Path) -> None:
    run = untrained_run(tmp_path / "run", split, SPANS, "char-only", KNOWN)
    assert "no word vectors" not in visible_text(error_page(run, split, "char-only"))
    file = run / "model" / "words.parquet"
    words = pq.read_table(file)
    none = pa.array([False] * len(words))
    pq.write_table(words.drop_columns("in_vectors").append_column("in_vectors", none), file)
    text = visible_text(error_page(run, split, "char-only"))
    assert "The run uses no word vectors, so there is no slice" in text
    assert "(the run's word vectors)" not in text


def test_says_how_no_answer_is_decided(tmp_path: Path, split: Path) -> None:
    run = untrained_run(tmp_path / "run", split, SPANS, "char", KNOWN)
    text = visible_text(error_page(run, split, "char"))
    assert "“No answer” is given where it is more probable than every span." in text
    assert "threshold" not in text
    scores = {"dev/em_at_threshold": 25.0, "dev/f1_at_threshold": 41.67}
    page = error_page(run, split, "char", facts={"threshold": -0.5, "scores": scores})
    assert "exact match is 25.0 and F1 41.7." in visible_text(page)


def test_reports_that_there_are_no_errors(tmp_path: Path, split: Path) -> None:
    run = untrained_run(tmp_path / "run", split, CORRECT, "char", KNOWN)
    page = error_page(run, split, "char")
    assert_self_contained(page)
    assert "No errors." in page
    assert not drawings(page)


@pytest.mark.parametrize(
    ("variant", "maps", "question_rows"),
    [("baseline", 2, 5), ("seo2016", 2, 1), ("char-selfattn", 3, 1), ("docqa", 3, 1)],
)
def test_heatmaps_have_tokens_on_both_axes(
    tmp_path: Path, split: Path, variant: str, maps: int, question_rows: int
) -> None:
    spans = [SPANS[0], *CORRECT[1:]]  # attention is drawn for errors
    run = untrained_run(tmp_path / "run", split, spans, variant, KNOWN)
    drawn = drawings(error_page(run, split, variant))
    assert len(drawn) == maps
    sizes = [(5, 6), (question_rows, 6), (6, 6)][:maps]  # with the null token
    for svg, (rows, columns) in zip(drawn, sizes, strict=True):
        texts = [text.text for text in svg.iter("text")]
        assert texts[rows:] == ["∅", "Ada", "Lovelace", "wrote", "notes", "."]
        if rows == 5:
            assert texts[:rows] == ["∅", "Who", "wrote", "notes", "?"]
        classes = [text.get("class") for text in svg.iter("text")][rows:]
        assert classes == [None, "both", "both", "predicted", "predicted", "predicted"]
        filled = np.zeros((rows, columns), dtype=int)
        for path in svg.iter("path"):
            for x, y, length in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\3z", path.get("d") or ""):
                filled[int(y), int(x) : int(x) + int(length)] += 1
        assert filled.max() == 1


def read_in_windows(run: Path, tokens: int, stride: int) -> None:
    file = run / "model" / "config.json"
    config = json.loads(file.read_text())
    config["variant"]["training"] |= {"max_context_tokens": tokens, "window_stride": stride}
    file.write_text(json.dumps(config))


def test_heatmap_shows_the_window_of_the_answer(tmp_path: Path, split: Path) -> None:
    spans = [(4, 4), *CORRECT[1:]]
    run = untrained_run(tmp_path / "run", split, spans, "char-selfattn", KNOWN)
    read_in_windows(run, 3, 1)
    page = error_page(run, split, "char-selfattn")
    assert_self_contained(page)
    for svg in (drawn := drawings(page)):
        texts = [text.text for text in svg.iter("text")]
        assert texts[-4:] == ["∅", "wrote", "notes", "."]
    assert len(drawn) == 3


def test_escapes_hostile_text(tmp_path: Path) -> None:
    attack = "</svg><script>alert(1)</script>"
    context = f"He wrote {attack} there."
    answer = Answer(text="there", answer_start=context.index("there"))
    question = Question(id=attack, question=f"Why {attack}?", answers=[answer])
    article = Article(title="x", paragraphs=[Paragraph(context=context, qas=[question])])
    folder = tmp_path / "split"
    folder.mkdir()
    ingest_articles([article], folder)
    run = untrained_run(tmp_path / "run", folder, [(0, 0)], "char-selfattn", KNOWN)
    page = error_page(run, folder, attack, dataset=attack, url=f"http://{attack}")
    assert "<script" not in page
    assert attack in visible_text(page)
    assert len(drawings(page)) == 3
    Page(page)


def test_long_full_contexts_are_not_drawn(tmp_path: Path) -> None:
    split = ingest(tmp_path / "split", ("Ada wrote. " * 400, ["Who wrote?"]))
    run = untrained_run(tmp_path / "run", split, [(0, 0)], "baseline", KNOWN)
    assert not drawings(error_page(run, split, "baseline"))
    read_in_windows(run, 1_001, 500)
    assert not drawings(error_page(run, split, "baseline"))
    read_in_windows(run, 40, 20)
    assert len(drawings(error_page(run, split, "baseline"))) == 2


def test_questions_without_tokens_are_not_drawn(tmp_path: Path) -> None:
    split = ingest(
        tmp_path / "split", ("Ada wrote.", [" ", "Who wrote?"]), (" ", ["Who wrote notes?"])
    )
    run = untrained_run(tmp_path / "run", split, [(0, 0), (0, 0), (-1, -1)], "char", KNOWN)
    assert len(drawings(error_page(run, split, "char"))) == 2


def test_reference_report_examples_are_drawn(shared_data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "split"
    folder.mkdir()
    ingest_articles(read_articles(shared_data / "squad" / "cs224n-dev-v2.0.json"), folder)
    count = len(load_split(folder))
    assert count == 6_078
    run = untrained_run(
        tmp_path / "run", folder, [(0, 0)] * count, "char-selfattn", ["the", "china", "poland"]
    )
    page = error_page(run, folder, "char-selfattn")
    assert len(drawings(page)) == 9
    assert len(page) < 2_000_000
