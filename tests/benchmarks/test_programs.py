"""The training and answering benchmarks, run as programs on a few generated questions."""

import json
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts.manifest import facts_of
from infra.cluster.ray_cluster import KEEP_FREED_MEMORY
from tests.factories.cli import ONE_WORKER, SMALL, run_benchmark, write_dataset
from tests.factories.object_store import ObjectStore

pytestmark = [pytest.mark.heavy, pytest.mark.full, pytest.mark.timeout(1800)]

DEV_QUESTIONS = 200  # more than one batch of answers, and more than in train


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a dataset named "own"."""
    folder = tmp_path_factory.mktemp("benchmarks")
    write_dataset(folder / "own", train=3, dev=4, contexts=10)
    return folder


def race(folder: Path, out: Path) -> dict[str, Any]:
    """The results that a race of `baseline` writes."""
    flags = ("--data.dataset", folder / "own", "--data.validation-share", "0")
    run_benchmark(
        folder / "root", "race", out, *flags, "--variants", "baseline", *SMALL, *ONE_WORKER
    )
    result: dict[str, Any] = json.loads((out / "baseline-seed0.json").read_text(encoding="utf-8"))
    return result


@pytest.fixture(scope="module")
def race_result(folder: Path) -> dict[str, Any]:
    return race(folder, folder / "first")


def test_race_records_every_epoch_and_the_kept_one(
    folder: Path, race_result: dict[str, Any]
) -> None:
    (epoch,) = race_result["history"]
    assert race_result["data"]["questions"] == DEV_QUESTIONS
    assert {"dev/em", "dev/f1", "elapsed_seconds"} <= epoch.keys()
    assert race_result["kept"]["epoch"] == 1
    assert race_result["kept"]["dev/f1"] == epoch["dev/f1"]
    assert race_result["seconds_with_evaluations"] >= race_result["seconds"]
    header, line = (folder / "first" / "baseline-seed0.tsv").read_text().splitlines()
    assert header == "epoch\thours\tf1Score"
    assert float(line.split("\t")[2]) == pytest.approx(epoch["dev/f1"] / 100, abs=1e-6)
    assert (folder / "first" / "baseline-seed0.png").stat().st_size > 1000


def test_repeated_race_reports_the_recorded_results(
    folder: Path, race_result: dict[str, Any]
) -> None:
    again = race(folder, folder / "again")
    assert again.pop("command") != race_result.pop("command")
    assert again == race_result


def test_measures_answering_latency_and_throughput(
    folder: Path, race_result: dict[str, Any]
) -> None:
    stages, out = folder / "root" / "stages", folder / "answering.json"
    (model,) = (stages / "train").glob("[!.]*/model")
    (dev,) = (
        folder
        for folder in (stages / "ingest").glob("[!.]*/")
        if facts_of(folder)["questions"] == DEV_QUESTIONS
    )
    run_benchmark(folder / "root", "answering", model, dev, "--threads", "1", "--out", out)
    result = json.loads(out.read_text(encoding="utf-8"))
    measured = result["measured"]
    assert measured["one_question_ms_95_percent"] >= measured["one_question_ms_median"] > 0
    assert measured["answers_per_second"] > 0
    assert result["model"] == {"name": "baseline", "hidden_size": 8}


def test_measures_calibration_and_uncertain_answers(
    folder: Path, race_result: dict[str, Any]
) -> None:
    stages, out = folder / "root" / "stages", folder / "calibration.json"
    (model,) = (stages / "train").glob("[!.]*/model")
    dev = next((stages / "split").glob("[!.]*/"))
    flags = ("--uncertain", "20", "--out", out, "--diagram", folder / "calibration.png")
    run_benchmark(folder / "root", "calibration", model, dev, "--validation", dev, *flags)
    result = json.loads(out.read_text(encoding="utf-8"))
    assert result["split"] == result["validation"]
    measured = result["split"]
    assert result["temperature"] == 1 and measured["ece"]["before"] == measured["ece"]["after"]
    assert measured["wrong"]["all"] == pytest.approx(100 - measured["em"])
    assert measured["em"] >= measured["first_annotator"]["em"]
    assert 0 <= measured["wrong"]["20"] <= 100
    assert (folder / "calibration.png").stat().st_size > 1000


def test_killed_predictions_write_the_same_bytes(folder: Path, race_result: dict[str, Any]) -> None:
    stages, out = folder / "root" / "stages", folder / "prediction.json"
    (model,) = (stages / "train").glob("[!.]*/model")
    dev = next((stages / "split").glob("[!.]*/"))
    flags = ("--questions", "1500", "--kills", "1", "--processors", "0", "--out", out)
    run_benchmark(folder / "root", "prediction", model, dev, *flags)
    result = json.loads(out.read_text(encoding="utf-8"))
    assert result["same_bytes"] and result["seconds"]["0"] > 0
    assert min(result["questions_per_second_without_files"].values()) > 0


def test_measures_steps_against_the_references(folder: Path) -> None:
    out = folder / "step.json"
    run_benchmark(
        folder / "root", "step", "--dataset", folder / "own", "--steps", "1", "--out", out
    )
    measured = json.loads(out.read_text(encoding="utf-8"))["measured"]
    assert measured.keys() == {"bidaflow bfloat16", "bidaflow", "padded", "packed"}
    for result in measured.values():
        assert result["examples_per_second"] > 0 and result["answers_per_second"] > 0
        assert 0 <= result["padding_ratio"] < 1


def test_measures_the_memory_of_a_training(folder: Path) -> None:
    out = folder / "memory.json"
    flags = ("--dataset", folder / "own", "--minutes", "1e-9", "--out", out)
    run_benchmark(folder / "root", "training_memory", *flags)
    result = json.loads(out.read_text(encoding="utf-8"))
    assert KEEP_FREED_MEMORY["MALLOC_CONF"] in result["measured"]
    for (notes,) in result["measured"].values():
        note = dict(zip(result["columns"], notes, strict=True))
        assert note["step"] == 1
        assert note["resident_mib"] > note["reclaimable_mib"] >= 0
        assert note["cpu_seconds"] >= note["kernel_seconds"]


def test_compares_a_folder_with_an_object_store(folder: Path, store: ObjectStore) -> None:
    flags = ("--data.dataset", folder / "own", "--data.validation-share", "0")
    arguments = (folder, "s3://results/cost", *flags, "--variants", "baseline", *SMALL, *ONE_WORKER)
    run_benchmark(folder / "root", "cluster.storage_root", *arguments)
    result = json.loads((folder / "storage-root.json").read_text(encoding="utf-8"))
    rows = {row["storage root"]: row for row in result["rows"]}
    local, remote, other = rows.values()
    assert local["stages"] == remote["stages"] and local["MB"] == remote["MB"]
    assert result["equal_files"] > 10
    assert float(other["command, s"]) < float(remote["command, s"])
    assert any(name.startswith("cost/") for name in store.names())
