"""The comparison: the trainings in its grid, their outcomes, the time left, and its table."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from flows.common.parameters import (
    DataParameters,
    TrainingParameters,
    VectorParameters,
    VocabularyParameters,
)
from flows.common.training import Training
from flows.compare_variants import (
    Evaluated,
    Outcomes,
    announce,
    build_grid,
    compare_variants,
    publish_comparison,
    with_error_report,
)
from infra.artifacts.stage import Output, result_of
from infra.errors import RetryableError, UserError
from models.configs.presets import preset
from tasks.datasets.tiny import generate
from tasks.reports.comparison import Cell, CellTrainings, Failure
from tasks.tracking import runs
from tasks.tracking.client import mlflow_client
from tests.factories.stages import in_flow
from tests.factories.vectors import write_lines

BASELINE, CHAR = (Cell("d", "v", name) for name in ("baseline", "char"))


def training(name: str, seed: int) -> Training:
    """A training of which only the configuration matters here."""
    nothing = cast("Any", None)
    return Training(preset(name).with_changes(seed=seed), nothing, nothing)


GRID = [(cell, training(cell.variant, seed)) for cell in (BASELINE, CHAR) for seed in (0, 1)]


def result(number: int, seconds: float, cached: bool = False) -> Evaluated:
    facts = {"scores": {"seconds": seconds}}
    trained, errors = (Output(Path(f"{name}{number}"), facts, cached) for name in ("t", "e"))
    return Evaluated(trained, errors)


def own_data(folder: Path, seed: int) -> DataParameters:
    """A dataset of few articles, in a folder named "own"."""
    folder.mkdir(parents=True)
    for part, data in zip(("train", "dev"), generate(seed, 2, 1), strict=True):
        (folder / f"{part}.json").write_text(json.dumps(data), encoding="utf-8")
    return DataParameters(dataset=str(folder), validation_share=0)


def test_same_named_inputs_get_separate_cells(
    root: Path, prefect_server: None, tmp_path: Path
) -> None:
    data = [own_data(tmp_path / f"place{seed}" / "own", seed) for seed in (1, 2)]
    vectors = []
    for name, line in (("support", "the 1 0"), ("legal", "the 0 1")):
        (tmp_path / name).mkdir()
        file = write_lines(tmp_path / name / "vectors.txt", line)
        vectors.append(VectorParameters(source=file))
    parameters = VocabularyParameters(), TrainingParameters(), None
    grid = in_flow(
        lambda: build_grid(data, vectors, [("baseline", 0), ("baseline", 1)], *parameters), "grid"
    )
    cells = [cell for cell, _ in grid]
    inputs = [(training.splits.train, training.encoded.vectors) for _, training in grid]
    folders = [tuple(output.folder for output in outputs) for outputs in inputs]
    assert len(set(cells)) == len(set(folders)) == 4
    assert [cells.count(cell) for cell in cells] == [2] * 8  # the two seeds
    assert len(set(zip(cells, folders, strict=True))) == 4
    assert {cell.dataset for cell in cells} == {"place1/own", "place2/own"}
    assert {cell.vectors for cell in cells} == {"support/vectors.txt", "legal/vectors.txt"}
    assert {training.splits.name for _, training in grid} == {"own"}


def test_rejects_vectors_without_ngrams_early(
    root: Path, prefect_server: None, tmp_path: Path
) -> None:
    vectors = [VectorParameters(source=write_lines(tmp_path / "plain.txt", "the 1 0"))]
    training = TrainingParameters(unknown_words="subword")
    parameters = VocabularyParameters(), training, None
    data = [own_data(tmp_path / "own", 1)]
    with pytest.raises(UserError, match=r"'subword', but the vectors .*plain\.txt have no n-grams"):
        in_flow(lambda: build_grid(data, vectors, [("baseline", 0)], *parameters), "no-ngrams")
    corpus = [str(tmp_path / "plain.txt")]
    vectors = [VectorParameters(source=m, corpus_files=corpus) for m in ("fasttext", "cbow")]
    with pytest.raises(UserError, match="'subword', but cbow has no n-grams"):
        in_flow(lambda: build_grid(data, vectors, [("baseline", 0)], *parameters), "no-ngrams")
    assert not (root / "stages" / "prepare-corpus").exists()


def test_rejects_a_training_seed_beside_seeds(root: Path, prefect_server: None) -> None:
    state = compare_variants(
        [DataParameters()], training=TrainingParameters(seed=0), return_state=True
    )
    with pytest.raises(UserError, match=r"training\.seed would have no effect.* Set seeds instead"):
        result_of(state)
    assert not (root / "stages").exists()


def test_result_table_fits_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    titles = ("EM", "F1", "NLL", "AvNA", "F1 at threshold", "F1 within", "F1 outside GloVe")
    row = {"dataset": "own", "vectors": "wiki-fasttext", "variant": "char-selfattn", "seeds": "3"}
    row |= dict.fromkeys(titles, "12.34 ± 0.56")
    row |= {"F1 gain, 95 %": "+11.17 (+9.47 to +12.85) *", "minutes": "27.7"}
    announce({"rows": [row, row | {"vectors": "glove"}], "report": "comparison.html"})
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    for value in ("char-selfattn", "wiki-fasttext", "own", "27.7", "12.34", "+11.17", "+12.85"):
        assert value in printed


def test_failed_report_does_not_end_the_comparison(
    root: Path, prefect_server: None, tmp_path: Path
) -> None:
    parameters = VocabularyParameters(), TrainingParameters(), None

    def report() -> object:
        data, vectors = [own_data(tmp_path / "own", 1)], [VectorParameters()]
        ((_, training),) = build_grid(data, vectors, [("baseline", 0)], *parameters)
        trained = Output(tmp_path / "gone", {}, cached=False)
        return with_error_report(training.splits, trained)

    error = in_flow(report, "reporting")
    assert isinstance(error, UserError) and not isinstance(error, RetryableError)
    assert str(error).startswith("the training ended, but not its error report: ")


def test_runs_of_an_earlier_attempt_are_finished(
    root: Path, prefect_server: None, tmp_path: Path
) -> None:
    """It was interrupted between the step that compares and the publication."""
    for name in ("comparison.html", "comparison.json"):
        (tmp_path / name).write_text("<main>")
    comparison = Output(tmp_path, {"markdown": "", "rows": []}, cached=True)

    def publish() -> str:
        run_id = runs.parent_run_of("own")
        publish_comparison(comparison, ["own"], complete=True)
        return run_id

    client, run_id = mlflow_client(), in_flow(publish, "comparing")
    assert client.get_run(run_id).info.status == "FINISHED"
    logged = {artifact.path for artifact in client.list_artifacts(run_id)}
    assert logged == {"comparison.html", "comparison.json"}


def test_finished_trainings_are_in_the_grids_order() -> None:
    outcomes = Outcomes(GRID)
    outcomes.ended[3] = result(3, 5)
    outcomes.ended[2] = UserError("char diverged.")
    outcomes.ended[0] = result(0, 5)
    assert outcomes.cells == [
        CellTrainings(BASELINE, [Path("t0")], [Path("e0")]),
        CellTrainings(CHAR, [Path("t3")], [Path("e3")]),
    ]
    assert Outcomes(GRID).cells == [CellTrainings(BASELINE, [], []), CellTrainings(CHAR, [], [])]
    assert outcomes.failed == [Failure(CHAR, 0, "char diverged.")]


def test_crash_is_shown_with_its_type_in_one_line() -> None:
    outcomes = Outcomes(GRID, {1: RuntimeError("worker died\nlong traceback")})
    assert outcomes.failed[0].error == "RuntimeError: worker died"
    assert Outcomes(GRID, {1: OSError()}).failed[0].error == "OSError: "


def test_failures_other_than_mistakes_are_retried() -> None:
    mistake = UserError("patience needs a validation split")
    error = Outcomes(GRID[:2], {0: result(0, 5), 1: mistake}).failure("page.html")
    assert type(error) is UserError
    assert str(error).startswith("1 of 2 trainings failed:\nbaseline · v · d · seed 1: patience")
    assert "The page has the others: page.html." in str(error)
    crash = RuntimeError("worker died")
    ended = {0: mistake, 1: crash, 2: result(2, 5), 3: result(3, 5)}
    assert type(Outcomes(GRID, ended).failure("page.html")) is RetryableError
    assert Outcomes(GRID[:2], {1: crash, 0: mistake}).errors == [crash, mistake]


@pytest.mark.parametrize(
    ("ended", "seconds", "left"),
    [
        ({}, 100.0, ""),
        ({0: result(0, 60, cached=True)}, 2.0, ""),
        # One baseline took 60 s, so the three others take as long.
        ({0: result(0, 60)}, 60.0, "3:00 left"),
        # Two trainings ran at a time.
        ({0: result(0, 60), 2: result(2, 180)}, 120.0, "2:00 left"),
        # The cached one does not tell how fast this run is.
        ({0: result(0, 60, cached=True), 2: result(2, 180)}, 180.0, "6:00 left"),
        # The failed one is not waited for.
        ({0: result(0, 60), 2: result(2, 180), 1: UserError("no")}, 240.0, "2:00 left"),
        ({number: result(number, 60) for number in range(4)}, 240.0, ""),
    ],
)
def test_time_left_follows_the_finished_trainings(
    ended: dict[int, Evaluated | Exception], seconds: float, left: str
) -> None:
    assert Outcomes(GRID, ended).time_left(seconds) == left
