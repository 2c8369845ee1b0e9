"""Training and answering on papers of up to 67,000 characters, in sliding windows."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flows.common.parameters import DataParameters, TrainingParameters
from flows.train import train
from infra.artifacts.manifest import facts_of
from infra.cluster.allotment import Resources

pytestmark = [pytest.mark.heavy, pytest.mark.full]


def length(article: dict[str, Any]) -> int:
    return len(article["paragraphs"][0]["context"])


def test_trains_and_answers_on_long_papers(
    root: Path, prefect_server: None, ray_cluster: None, shared_data: Path, tmp_path: Path
) -> None:
    papers = json.loads((shared_data / "qa" / "covid_qa.json").read_text("utf-8"))["data"]
    papers.sort(key=length)
    assert length(papers[-1]) > 67_000
    files = {"train": papers[:4], "dev": papers[-1:]}
    for name, articles in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"data": articles}), encoding="utf-8")
    result = train(
        DataParameters(
            dataset="papers",
            train_files=[str(tmp_path / "train.json")],
            dev_files=[str(tmp_path / "dev.json")],
            validation_share=0,
        ),
        ["char"],
        training=TrainingParameters(
            epochs=1, hidden_size=8, window_stride=200, max_answer_tokens=60
        ),
        resources=Resources(cpus_per_worker=1),
    )
    dev = [question for p in papers[-1]["paragraphs"] for question in p["qas"]]
    assert result["questions"] == len(dev) == 56
    (trained,) = (root / "stages" / "train").glob("[!.]*")
    questions = sum(len(p["qas"]) for article in papers[:4] for p in article["paragraphs"])
    assert facts_of(trained)["trained_on"] == questions  # no question is skipped for its length
    table = pq.read_table(trained / "predictions.parquet").to_pydict()
    assert table["id"] == [str(question["id"]) for question in dev]
    context = papers[-1]["paragraphs"][0]["context"]
    spans = list(zip(table["best_span_start_char"], table["best_span_end_char"], strict=True))
    assert [context[start:end] for start, end in spans] == table["best_prediction"]
    assert max(start for start, _ in spans) > 5_000  # far beyond the first window
    errors = Path(result["report"]).with_name("char.html")
    assert errors.stat().st_size > 0
