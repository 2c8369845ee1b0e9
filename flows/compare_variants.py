"""Flow `compare-variants`: compare variants × seeds × datasets × vectors in one table."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import datetime
from itertools import groupby, product
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.runtime import flow_run
from pydantic import BeforeValidator, Field
from rich.markup import escape
from rich.table import Column

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show, table
from flows.common.compared import ComparedVariant, Outcomes, recurs, sentence
from flows.common.data_files import recommended_training
from flows.common.display_names import names_of_data, names_of_vectors, require_unique
from flows.common.encoding import composes_oov_words, encode_dataset, vectors_for
from flows.common.failures import TRAINING_FLOW, report_user_errors
from flows.common.parameters import (
    DataParameters,
    TrainingParameters,
    VariantName,
    Variants,
    VectorParameters,
    VocabularyParameters,
)
from flows.common.presets import configure
from flows.common.publish import (
    folder_of_run,
    log_pages,
    publish_page,
    reports_folder,
    url_of,
)
from flows.common.splits import ingest_dataset
from flows.common.training import Training, model_to_start_from, report_on, suited_to, train_each
from infra.artifacts.shared_folder import shared_folder
from infra.artifacts.stage import Output
from infra.cluster.allotment import Resources
from infra.errors import RetryableError, UserError
from tasks.datasets.catalog import COMPARISONS
from tasks.reports.comparison import Cell, compare
from tasks.reports.run_report import REPORT, write_error_page
from tasks.stages import compare_stage, error_report_stage
from tasks.tracking import runs

# The columns that the terminal shows; the page and Prefect show all columns.
TERMINAL_COLUMNS = ("dataset", "vectors", "variant", "EM", "F1", "F1 gain, 95 %", "minutes")
PAGE = "comparison.html"


def from_name(field: str) -> Callable[[Any], Any]:
    """Accept a plain name or path as a group of fields of which only `field` is set."""
    return lambda value: {field: value} if isinstance(value, str) else value


@flow(
    name="compare-variants",
    description=__doc__,
    **TRAINING_FLOW,
)
@report_user_errors
def compare_variants(
    data: Annotated[
        list[Annotated[DataParameters, BeforeValidator(from_name("dataset"))]],
        Field(
            min_length=1,
            description="Datasets to train on. On each, gains are relative to the first variant "
            "with the first vectors.",
        ),
    ],
    variants: Variants = ["baseline", "char"],
    seeds: Annotated[
        list[Annotated[int, Field(ge=0)]],
        Field(min_length=1, description="Training seeds. Each variant is trained once per seed."),
    ] = [0, 1, 2],
    training: TrainingParameters = TrainingParameters(),
    vectors: Annotated[
        list[Annotated[VectorParameters, BeforeValidator(from_name("source"))]],
        Field(min_length=1, description="Sets of word vectors to compare."),
    ] = [VectorParameters()],
    vocabulary: VocabularyParameters = VocabularyParameters(),
    resources: Resources = Resources(),
) -> dict[str, Any]:
    """Train every variant from every seed on all datasets and vectors.

    Returns the table's rows and the path of the report. The reference of each dataset is the first
    variant with the first vectors. Datasets or vectors of the same name are distinguished by their
    folders or settings. The champion does not change.

    The page is written after each training. If trainings fail, the others go on, and the run ends
    as failed. A run with the same parameters trains only what is missing.
    """
    require_unique(data=data, variants=variants, seeds=seeds, vectors=vectors)
    if "seed" in training.changes():
        raise UserError(
            "training.seed would have no effect, because each variant is trained once per seed in "
            "seeds. Set seeds instead, or omit it."
        )
    start = model_to_start_from(training.start_from)
    grid = build_grid(data, vectors, list(product(variants, seeds)), vocabulary, training, start)
    trainings = [cell_training for _, cell_training in grid]
    outcomes, start_seconds = Outcomes(grid), time.monotonic()
    with closing(train_each(trainings, resources)) as ended:
        for number, outcome in ended:
            outcomes.ended[number] = with_error_report(*grid[number], outcome)
            if len(outcomes.ended) < len(grid):
                _publish_so_far(outcomes, seeds, time.monotonic() - start_seconds)
    return _publish_all(outcomes, seeds)


def build_grid(
    data: Sequence[DataParameters],
    vectors: Sequence[VectorParameters],
    models: Sequence[tuple[VariantName, int]],
    vocabulary: VocabularyParameters,
    training: TrainingParameters,
    start: Path | None,
) -> list[tuple[Cell, Training]]:
    """The trainings of all models on all datasets and vectors, ready to start.

    A model is a variant and a seed. Each training comes with the cell that it counts towards.
    """
    configs = [
        [
            configure(name, recommended_training(dataset), training.changes(), {"seed": seed})
            for name, seed in models
        ]
        for dataset in data
    ]
    for variants, source in product(configs, vectors):  # check all before training any vectors
        vectors_for(variants, source)
    grid = []
    for dataset_name, dataset, variants in zip(names_of_data(data), data, configs, strict=True):
        splits = ingest_dataset(dataset)
        suited = suited_to(variants, splits, training.changes())
        for vectors_name, source in zip(names_of_vectors(vectors), vectors, strict=True):
            encoded = encode_dataset(
                splits,
                vectors_for(variants, source),
                vocabulary.config,
                composes_oov_words(variants),
            )
            grid += [
                (
                    Cell(dataset_name, vectors_name, variant.name),
                    Training(variant, splits, encoded, start),
                )
                for variant in suited
            ]
    return grid


def with_error_report(
    cell: Cell, training: Training, outcome: Output | Exception
) -> ComparedVariant | Exception:
    """The result of a training, with its error report; the error if either failed.

    A failed report is not raised: it would end the trainings that are under way.
    """
    if isinstance(outcome, Exception):
        return outcome
    try:
        splits = training.splits
        errors = error_report_stage(splits.name, outcome.folder, splits.dev.folder)
    except Exception as error:
        lost = f"the training ended, but not its error report: {sentence(error)}"
        return UserError(lost) if recurs(error) else RetryableError(lost)
    return ComparedVariant(cell, training, outcome, errors)


def _publish_so_far(outcomes: Outcomes, seeds: Sequence[int], seconds: float) -> None:
    """Log how many trainings are left, and write the page with the results so far, if any.

    A failure is logged, not raised: trainings are under way.
    """
    left, log = outcomes.time_left(seconds), get_run_logger()
    ended = f"{len(outcomes.ended)} of {len(outcomes.grid)} trainings have ended"
    log.info(f"{ended}, about {left}." if left else f"{ended}.")
    if not outcomes.finished:
        return
    at = f"{left} at {datetime.now().astimezone():%Y-%m-%d %H:%M %Z}" if left else ""
    try:
        with TemporaryDirectory() as folder:
            compare(Path(folder), outcomes.cells, seeds, {}, outcomes.missing, at)
            page = publish_page(Path(folder) / PAGE, f"{_folder()}/{PAGE}")
        log.info(f"Results so far: {page}")
    except Exception as error:
        log.warning(f"The page with the results so far was not updated: {sentence(error)}")


def _publish_all(outcomes: Outcomes, seeds: Sequence[int]) -> dict[str, Any]:
    """Publish the comparison when all trainings have ended.

    Raises:
        UserError: some trainings failed; the page has the others. Retryable if any of them failed
            for another reason than a mistake of the user.
        Exception: all failed; the error of the first one for which a retry may help, if any.
    """
    results, missing = outcomes.finished, outcomes.missing
    if not results:
        raise outcomes.errors[0]
    pages = _publish_reports(results, seeds[0])
    comparison = compare_stage(outcomes.cells, seeds, pages, missing)
    datasets = dict.fromkeys(result.training.splits.name for result in results)
    summary = publish_comparison(comparison, datasets, complete=not missing)
    if missing:
        raise outcomes.failure(summary["report"])
    return summary


def _publish_reports(results: Sequence[ComparedVariant], seed: int) -> dict[str, str]:
    """Publish one report on a seed's variants for each dataset and set of vectors.

    Returns their URLs, relative to the comparison page, by title.
    """
    with_seed = [result for result in results if result.training.config.training.seed == seed]
    same_data = attrgetter("cell.dataset", "cell.vectors")
    groups = [list(group) for _, group in groupby(with_seed, same_data)]
    reports = [
        report_on(group[0].training, [result.trained for result in group]) for group in groups
    ]
    urls = {}
    for number, (group, report) in enumerate(zip(groups, reports, strict=True), start=1):
        for result in group:
            page = reports_folder() / _folder() / str(number) / f"{result.cell.variant}.html"
            with shared_folder(page):
                write_error_page(result.error_report.folder / "errors.html", page)
        publish_page(report.folder / REPORT, f"{_folder()}/{number}/{REPORT}")
        cell = group[0].cell
        urls[f"{cell.dataset} · {cell.vectors} · seed {seed}"] = f"{number}/{REPORT}"
    return urls


def _folder() -> str:
    """The folder of this run's pages, below that of all reports."""
    return f"{COMPARISONS}/{folder_of_run()}"


def publish_comparison(
    comparison: Output, datasets: Iterable[str], complete: bool
) -> dict[str, Any]:
    """Publish the table and the plot, and show them in Prefect and MLflow.

    The MLflow runs of an incomplete comparison stay open; they fail with the flow. A comparison
    that is unchanged was logged before, unless an earlier attempt was interrupted, or another run
    made it at the same time.
    """
    report = publish_page(comparison.folder / PAGE, f"{_folder()}/{PAGE}")
    url = url_of(report, None)
    if not comparison.cached or runs.has_runs(str(flow_run.id)):
        for run_id in map(runs.parent_run_of, datasets):
            url = url_of(report, run_id)
            runs.log_artifacts(run_id, [comparison.folder / "comparison.json"])
            log_pages(run_id, report.parent)
            runs.add_link(run_id, f"[Comparison]({url})")
            if complete:
                runs.finish(run_id, "FINISHED")
    create_markdown_artifact(
        f"{comparison.facts['markdown']}\n[Page with the plot]({url})",
        key="comparison",
        description="Scores of all variants. Gains have 95 % intervals over texts and seeds; "
        "* marks p < 0.05 after Holm's correction",
    )
    return {"rows": comparison.facts["rows"], "report": str(report)}


def announce(summary: dict[str, Any]) -> None:
    """Print the columns that fit in a terminal, and the path of the full report."""
    rows = summary["rows"]
    constant = [
        key for key in ("dataset", "vectors", "seeds") if len({row[key] for row in rows}) == 1
    ]
    shown = [key for key in TERMINAL_COLUMNS if key not in constant]
    columns = [
        Column(title, overflow="fold", no_wrap=title in ("variant", "vectors")) for title in shown
    ]
    show(
        table(
            columns,
            [[row[key] for key in shown] for row in rows],
            title=escape(
                " · ".join(f"{key} {rows[0][key]}" for key in constant)
                + ": all dev questions; * marks p < 0.05 after Holm's correction"
            ),
        ),
        f"Report     {summary['report']} (plot, and all {len(rows[0])} columns)",
    )


command = flow_command(compare_variants, announce, data=[DataParameters()])
