"""The attention to the words that make questions unanswerable."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.fooled import attention
from benchmarks.fooled.attention import Shares, near, shares, table
from tests.factories.answer_files import write_answers
from tests.factories.logged_models import save_untrained_model

CONTEXT = "The inn stands by the river. Ann met Bob."
SPAN = (29, 32)


def test_attention_near_the_answer_is_shared_out() -> None:
    to_question = np.zeros((4, 5))  # of the null token and three context tokens
    to_question[1:3] = [[0.1, 0.2, 0.3, 0.4, 0.0], [0.1, 0.4, 0.1, 0.2, 0.2]]
    to_question[3, 4] = 1.0
    assert shares(to_question, np.array([0, 1]), [0, 1, 2], [1]) == pytest.approx((20, 30))


def test_tokens_near_a_span_end_with_the_context() -> None:
    offsets = [(3 * i, 3 * i + 2) for i in range(20)]
    assert near(offsets, (30, 35)).tolist() == list(range(5, 17))
    assert near(offsets, (1, 2)).tolist() == list(range(6))
    assert near(offsets, (57, 59)).tolist() == list(range(14, 20))


def test_rows_of_all_questions_and_of_each_category() -> None:
    rows = table([("a", Shares(4, 2)), ("b", Shares(1, 2)), ("b", Shares(1, 5))])
    assert [(row["category"], row["questions"]) for row in rows] == [
        ("all", "3"),
        ("b", "2"),
        ("a", "1"),
    ]
    assert rows[0]["attention to a changed token"] == "2.0 %"
    assert rows[0]["to another word"] == "3.0 %"
    assert rows[1]["difference"].startswith("-2.50 (")
    assert rows[2]["difference"] == "–", "one question says nothing about others"


def test_measures_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save_untrained_model(tmp_path)
    qas = [
        {"id": f"q{n}", "question": "Whom did Eve meet?", "answers": [], "is_impossible": True}
        for n in range(2)
    ]
    paragraph = {"context": CONTEXT, "qas": qas}
    dev, changed, answers = (tmp_path / name for name in ("dev.json", "c.tsv", "a.parquet"))
    dev.write_text(json.dumps({"data": [{"title": "t", "paragraphs": [paragraph]}]}), "utf-8")
    write_answers(answers, [0.0, 2.0], [False, False], SPAN)
    write_answers(answers.with_name(f"validation-{answers.name}"), [0.0, 2.0], [True, False], SPAN)

    def run(text: str) -> None:
        changed.write_text(text, encoding="utf-8")
        arguments = ["attention", changed, answers, dev, model, tmp_path]
        monkeypatch.setattr(sys, "argv", [*map(str, arguments)])
        attention.main()

    run("q0\tentity swap\t2\n")
    (all_questions, swaps) = json.loads((tmp_path / "fooled-attention.json").read_text())["rows"]
    assert all_questions["questions"] == swaps["questions"] == "1"
    share = float(swaps["attention to a changed token"].removesuffix(" %"))
    assert 0 < share < 100
    for text, message in (
        ("q0\ta\t9\n", "5 tokens"),
        ("q0\ta\t0,1,2,3\n", "at least one word must be unchanged"),
        ("q1\ta\t2\n", "1 of the 1 questions"),
    ):
        with pytest.raises(SystemExit, match=message):
            run(text)
    model, dev = tmp_path / "nothing", tmp_path / "nothing.json"
    with pytest.raises(SystemExit):
        run("q0\ta\t2\n")
    assert "nothing.json is not a file" in capsys.readouterr().err
    dev = tmp_path / "dev.json"
    for text, message in (("q0\ta\t2\n", "not a model's folder"), ("q0\ta\n", "no positions")):
        with pytest.raises(SystemExit):
            run(text)
        assert message in capsys.readouterr().err
