"""The pages of runs, and their records."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infra.artifacts.manifest import stages_folder
from tasks.evaluation.bootstrap import Gain
from tasks.evaluation.promotion_rule import Decision, SliceComparison
from tasks.reports.run_report import (
    PLACE,
    RunRecord,
    as_artifact,
    read_records,
    run_folder,
    write_run,
)
from tests.factories.html import Page, visible_text
from tests.factories.reports import run_record

HOSTILE = "a&b <script>alert(1)</script> \"'%23#?"


def test_report_has_the_floor_of_the_decision(reports: Path) -> None:
    floor = SliceComparison('always "no answer"', 90, 19.0, 19.4, Gain(0.4, -0.2, 1.0))
    decision = Decision(False, "it does not exceed the floor", [], floor)
    text = visible_text(write(reports, run_record(1, decision=decision)))
    assert 'always "no answer" has F1 19.0 on the 90 questions of the decision' in text
    assert "best variant 19.4 (+0.4; 95 % interval −0.2 to +1.0)" in text


@pytest.fixture
def reports(root: Path) -> Path:
    return root / "reports"


def write(reports: Path, record: RunRecord) -> str:
    """Write a run's pages; returns its report."""
    stage = reports.parent / "stage"
    stage.mkdir(parents=True, exist_ok=True)
    html = "<html><head></head><body>{}</body></html>"
    (stage / "report.html").write_text(html.format(PLACE))
    (stage / "errors.html").write_text(html.format(f"<p>errors{PLACE}</p>"))
    errors = {variant.name: stage / "errors.html" for variant in record.variants}
    page = write_run(reports / record.dataset, record, stage / "report.html", errors)
    return page.read_text(encoding="utf-8")


def page_of(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    Page(text)  # asserts its nesting
    return text


def assert_links_resolve(file: Path) -> None:
    for target in re.findall(r'<a href="([^"]*)"', page_of(file)):
        if "://" not in target:
            assert (file.parent / unquote(target)).is_file(), target


def test_records_are_read_back_oldest_first(reports: Path) -> None:
    gain = Gain(-71.1, -74.0, -67.0)
    decision = Decision(False, "F1 fell", [SliceComparison("all", 9, 97.4, 26.3, gain)])
    records = [run_record(1, decision=decision, sentence="F1 fell."), run_record(2)]
    for record in reversed(records):
        write(reports, record)
    assert read_records(reports / "made") == records


def test_a_second_write_of_a_run_replaces_the_first(reports: Path) -> None:
    write(reports, run_record(1, {"char": 10.0}))
    write(reports, run_record(1, {"char": 20.0}))
    (record,) = read_records(reports / "made")
    assert record.variants[0].f1 == 20


def test_folder_name_is_valid_for_any_run_name() -> None:
    started = datetime(2026, 3, 1, 6, 30, tzinfo=UTC)
    assert run_folder(started, "../nightly / ä") == "2026-03-01-0630-..-nightly-ä"
    assert len(run_folder(started, "ж" * 300).encode()) < 150
    assert run_folder(started, "nightly") != run_folder(started.replace(hour=7), "nightly")


def test_report_shows_decision_command_and_links(reports: Path) -> None:
    gain = Gain(-71.1, -74.0, -67.0)
    compared = SliceComparison("all", 9, 97.4, 26.3, gain, confidence=0.975)
    decision = Decision(False, "F1 fell", [compared])
    record = run_record(1, decision=decision, sentence="Version 4 (char) was not promoted.")
    text = visible_text(write(reports, record))
    for words in (
        "Version 4 (char) was not promoted.",
        "97.4 26.3 −71.1 −74.0 to −67.0 (97.5 %)",
        "bidaflow retrain --data.dataset made",
        "0123abc",
        "run-1 in Prefect",
    ):
        assert words in text
    assert "Compared with the run before" not in text


def write_answers(stage: str, f1: list[float]) -> None:
    """The predictions of a training, about one context."""
    folder = stages_folder() / "train" / stage
    folder.mkdir(parents=True)
    columns = {"f1": f1, "group": [0] * len(f1)}
    pq.write_table(pa.table(columns), folder / "predictions.parquet")


def test_report_compares_with_the_run_before(reports: Path) -> None:
    write_answers("char-1", [0.0, 0.5, 1.0])
    write_answers("char-3", [0.5, 1.0, 1.0])
    for record in (run_record(1), run_record(2, {"baseline": 1.0}), run_record(4)):
        write(reports, record)
    text = write(reports, run_record(3))
    assert "Compared with the run before, run-1 of 2026-03-02" in visible_text(text)
    assert re.search(r"char 51\.0 53\.0 \+33\.3 −56\.3 to \+78\.1", visible_text(text))
    assert f'href="{run_record(1).mlflow_url}"' in text


def test_report_says_what_changed_since_the_run_before(reports: Path) -> None:
    for number, rate, digest in ((1, 0.5, "a"), (2, 0.001, "b")):
        write_answers(f"char-{number}", [1.0])
        training = {"learning_rate": rate, "epochs": 3}
        data = {"train": {"ingested": digest, "encoded": digest}, "vectors": "v"}
        inputs = {"variant": {"training": training}, "data": data}
        file = stages_folder() / "train" / f"char-{number}" / "manifest.json"
        file.write_text(json.dumps({"inputs": inputs}), encoding="utf-8")
    write(reports, run_record(1))
    text = visible_text(write(reports, run_record(2)))
    changes = "other training data, training.learning_rate 0.5 → 0.001."
    assert f"char, changed since then: {changes}" in text


@pytest.mark.parametrize("change", ["other questions", "answers removed"])
def test_without_common_questions_no_gain_is_shown(reports: Path, change: str) -> None:
    write_answers("char-1", [0.0])
    old = run_record(1)
    if change == "other questions":
        write_answers("char-2", [1.0])
        digest = old.variants[0].model_copy(update={"dev_digest": "other"})
        old = old.model_copy(update={"variants": [digest]})
    write(reports, old)
    text = visible_text(write(reports, run_record(2)))
    assert "char 51.0 52.0 – –" in text
    assert "–: the runs answered different questions" in text


@pytest.mark.parametrize("content", ["", "{", "[]", '{"name": "older"}'])
def test_unreadable_record_leaves_out_its_run_alone(
    reports: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(reports, run_record(1))
    broken = reports / "made" / "2026-01-01-0000-broken.json"
    broken.write_text(content)
    write(reports, run_record(2))
    assert [record.name for record in read_records(reports / "made")] == ["run-1", "run-2"]
    assert str(broken) in caplog.text


def test_hostile_names_are_escaped(reports: Path) -> None:
    hostile: dict[str, Any] = {
        "dataset": HOSTILE.replace("/", ""),
        "name": HOSTILE,
        "sentence": HOSTILE,
        "command": HOSTILE,
    }
    report = ""
    for day in (1, 2):
        report = write(reports, run_record(day, **hostile))
    assert "<script>" not in report and "alert(1)" in report
    for file in reports.rglob("*.html"):
        assert_links_resolve(file)


def test_links_of_an_artifact_lead_to_artifacts() -> None:
    links = ("char.html", "1/r%C3%A4t.html?a=1&amp;b", "http://other:1/#/runs/2")
    drawing = '<svg><defs><path id="m1"></path></defs><use xlink:href="#m1"></use></svg>'
    anchors = "".join(f'<a href="{link}">x</a>' for link in links)
    artifacts = "http://127.0.0.1:1/#/experiments/1/runs/a/artifacts"
    page = as_artifact(f"<main>{anchors}{drawing}</main>", artifacts, Path("/root/<report>.html"))
    assert drawing in page
    assert re.findall(r'<a href="([^"]*)"', page) == [
        f"{artifacts}/char.html",
        f"{artifacts}/1/r%C3%A4t.html?a=1&amp;b",
        "http://other:1/#/runs/2",
    ]
    assert "the file /root/<report>.html" in visible_text(page)
