import re
from datetime import datetime
from html import unescape
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infra.errors import UserError
from tasks.data.ingest import ingest_articles
from tasks.data.schema import Answer, Article, Paragraph, Question
from tasks.evaluation.evaluate import EvaluationSplit, load_split
from tests.factories.html import Page, assert_self_contained, visible_text
from tests.factories.reports import history, variant, written_report
from tests.factories.splits import write_split


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_split(tmp_path)


@pytest.fixture
def split(folder: Path) -> EvaluationSplit:
    return load_split(folder)


GOLD = [(0, 1), (-1, -1), (1, 2), (1, 1)]
WEAK = [(0, 1), (0, 0), (0, 0), (0, 0)]


def test_page_shows_scores_and_is_self_contained(folder: Path, split: EvaluationSplit) -> None:
    facts = {"questions": 4.0, "widened": 1.0, "oracle_em": 98.765, "oracle_f1": 99.5}
    before = datetime.now()
    page = written_report(
        folder,
        [
            variant(folder, split, "weak", WEAK),
            variant(folder, split, "strong", GOLD, parameters=1_234_567, trained_on=1_150),
        ],
        facts={"train": {**facts, "questions": 1_200}, "dev": facts},
        vocabulary={"words": 48_000, "coverage_train": {"tokens_looked_up": 0.9812}},
    )
    text = visible_text(page)
    assert any(f"{now.day} {now:%B %Y}" in text for now in (before, datetime.now()))
    for expected in (
        "all 4 questions about 3 contexts",
        "1,200 questions in the training data",
        "strong 1,150 1,234,567",
        "Best variant by F1 strong",
        "1,234,567",
        "98.77",
        "48,000",
        "98.1 %",
    ):
        assert expected in text
    assert_self_contained(re.sub(r'<a href="\w+\.html">errors</a>', "", page))


def test_page_has_the_floor_and_names_its_rule(folder: Path, split: EvaluationSplit) -> None:
    text = visible_text(written_report(folder, [variant(folder, split, "weak", WEAK)]))
    assert 'Floor : always "no answer" 25.00 25.00 25.00 –' in text
    assert "Floor : the first sentence's best span 50.00 66.67 75.00 –" in text

    assert "EM and F1 follow the official rule of SQuAD 2.0." in text
    assert "For 1 questions" in text, "about π ≈ 3"
    assert "MLQA" in text


def test_shows_the_mix_of_contextual_layers(folder: Path, split: EvaluationSplit) -> None:
    mixes = {
        "input": {"shares": [0.25, 0.605, 0.145], "scale": 0.9},
        "output": {"shares": [0.5, 0.2, 0.3], "scale": 1.25},
    }
    with_mix = variant(folder, split, "char-elmo", GOLD, mixes=mixes)
    text = visible_text(written_report(folder, [variant(folder, split, "char", GOLD), with_mix]))
    assert "char-elmo encoder input 25.0 % 60.5 % 14.5 % 0.900" in text
    assert "char-elmo encoder output 50.0 % 20.0 % 30.0 % 1.250" in text
    other = variant(folder, split, "weak", WEAK)
    assert "Contextual vectors" not in written_report(folder, [other])


def test_warns_of_data_leakage_by_a_warm_start(folder: Path, split: EvaluationSplit) -> None:
    warning = "warm: 1 of 4 dev questions are about contexts that the model was trained on."
    variants = [
        variant(folder, split, "warm", GOLD, data_leakage=warning),
        variant(folder, split, "plain", WEAK),
    ]
    assert f"Warm start. {warning}" in visible_text(written_report(folder, variants))
    assert "Warm start" not in written_report(folder, variants[1:])


def test_best_value_per_column_is_marked(folder: Path, split: EvaluationSplit) -> None:
    weak, strong = (
        variant(folder, split, "weak", WEAK, history=history(2)),
        variant(folder, split, "strong", GOLD, history=history(4)),
    )
    table = written_report(folder, [weak, strong]).split("<tbody>")[1]
    rows = re.findall(r"<tr>(.*?)</tr>", table.split("</tbody>")[0], re.DOTALL)
    assert "best" not in rows[0]
    assert rows[1].count('class="number best"') == 4
    assert re.findall(r'class="number best">([\d.]+)', rows[1]) == [
        "100.00",
        "100.00",
        "100.00",
        "1.75",
    ]
    alone = written_report(folder, [weak])
    assert 'class="number best"' not in alone
    assert "★ marks" not in alone


def test_optional_scores_appear_only_if_present(folder: Path, split: EvaluationSplit) -> None:
    within = {
        **{"dev/questions_within": 3, "dev/em_within": 71.25, "dev/f1_within": 72.5},
        **{"dev/avna_within": 73.75, "dev/nll_within": 2.5, "dev/nll": 1.5},
    }
    config = {"training": {"max_context_tokens": 400}}
    plain = variant(folder, split, "plain", GOLD)
    scored = variant(folder, split, "scored", WEAK, config=config, scores=within)
    both = visible_text(written_report(folder, [plain, scored]))
    assert "1.50 errors" in both, "of the epoch that was kept, not of the last"
    part = both.split("Contexts within the length limit")[1]
    assert "scored 400 3 of 4 71.25 72.50 73.75 2.50" in part
    everything = variant(
        folder, split, "all", GOLD, config=config, scores=within | {"dev/questions_within": 4}
    )
    alone = visible_text(written_report(folder, [everything]))
    assert "Contexts within the length limit" not in alone


def test_minutes_cover_the_whole_training(folder: Path, split: EvaluationSplit) -> None:
    page = written_report(folder, [variant(folder, split, "one", GOLD, history=history(4))])
    assert "4 6.0 210" in visible_text(page)  # epochs, minutes, examples per second


def test_escapes_hostile_text(tmp_path: Path) -> None:
    attack = "<script>alert(1)</script>"
    context = f'He wrote {attack} & "quotes" on </p> the wall.'
    answer = Answer(text=attack, answer_start=context.index(attack))
    question = Question(id="1", question=f"What did {attack} do?", answers=[answer])
    article = Article(title=attack, paragraphs=[Paragraph(context=context, qas=[question])])
    ingest_articles([article], tmp_path)
    split = load_split(tmp_path)
    span = (int(split.span_start[0]), int(split.span_end[0]))
    result = variant(tmp_path, split, "plain", [span], run_url="javascript:alert(1)")
    hostile = variant(tmp_path, split, attack, [span], config={attack: attack}, no_threshold=attack)
    page = written_report(tmp_path, [result, hostile], dataset=attack)
    assert "<script" not in page
    assert "javascript:" not in page
    assert f'<mark class="both">{attack.replace("<", "&lt;").replace(">", "&gt;")}</mark>' in page
    assert 'He wrote <script>alert(1)</script> & "quotes" on </p> the wall.' in visible_text(
        re.sub(r"</?mark[^>]*>", "", page)
    )
    Page(page)


def test_curves_skip_nan_values(folder: Path, split: EvaluationSplit) -> None:
    rows = [{**row, "dev/nll": float("nan")} for row in history(3)]
    page = written_report(folder, [variant(folder, split, "one", GOLD, history=rows)])
    assert "nan" not in visible_text(page).split()
    loss = page.split("Loss</figcaption>")[1].split("</figure>")[0]
    assert "one, training, epoch 3: 2.00" in loss and "one, evaluation" not in loss


def test_slices_count_every_question_once(folder: Path, split: EvaluationSplit) -> None:
    page = written_report(folder, [variant(folder, split, "one", WEAK)])
    part = page.split("Scores by slice")[1].split("<h2>")[0]
    tables = re.findall(r"<h3>(.*?)</h3>.*?<tbody>(.*?)</tbody>", part, re.DOTALL)
    counts = {
        title: {row: int(n) for row, n in re.findall(r'"row">(.*?)</th><td>(\d+)', body)}
        for title, body in tables
    }
    assert counts == {
        "Answerable or not": {"answerable": 3, "unanswerable": 1},
        "Question word": {"who": 2, "when": 1, "how many": 1},
        "Context length (tokens)": {"up to 100": 4},
        "Answer length (tokens)": {"1": 1, "2": 2},
        "OOV words in question or answers (GloVe 6B)": {"some": 2, "none": 2},
    }
    who = re.search(r'"row">who</th>.*?"first">([\d.]+).*?</span>([\d.]+)', part, re.DOTALL)
    assert who is not None
    assert who.groups() == ("50.0", "50.0")


def test_examples_show_both_spans_by_confidence(folder: Path, split: EvaluationSplit) -> None:
    page = written_report(folder, [variant(folder, split, "one", WEAK)])
    wrong, correct = page.split("Most confident correct predictions")
    questions = [unescape(q) for q in re.findall(r'<h5 dir="auto">(.*?)</h5>', wrong)]
    assert questions == ["To whom?", "When were they written?"]  # "π" shares a word with "π ≈ 3"
    assert '<mark class="predicted">a</mark> <mark class="gold">𝔘x</mark>' in wrong
    assert '<mark class="predicted">Ada</mark> Lovelace' in wrong
    assert '<mark class="both">Ada Lovelace</mark>' in correct
    assert f"confidence {100 * np.exp(-0.1):.1f} %" in wrong


def test_differing_settings_are_marked(folder: Path, split: EvaluationSplit) -> None:
    small = variant(folder, split, "small", GOLD, config={"model": {"size": 50, "deep": None}})
    large = variant(folder, split, "large", GOLD, config={"model": {"size": 100, "deep": None}})
    page = written_report(folder, [small, large])
    assert re.search(
        r'class="differs"><th scope="row">model.size</th><td>50</td><td>100</td>', page
    )
    assert re.search(r'<tr><th scope="row">model.deep</th><td>–</td><td>–</td>', page)


def test_rejects_predictions_for_other_questions(folder: Path, split: EvaluationSplit) -> None:
    result = variant(folder, split, "one", GOLD)
    table: pa.Table = pq.read_table(result / "predictions.parquet")
    pq.write_table(table.slice(0, 3), result / "predictions.parquet")
    with pytest.raises(UserError, match=r"3 predictions .* 4 questions .*'one'"):
        written_report(folder, [result])
