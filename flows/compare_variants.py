"""Flow `compare-variants`: compare variants × seeds × datasets × vectors in one table."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from prefect import flow, get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.runtime import flow_run
from pydantic import BeforeValidator, Field
from rich.markup import escape
from rich.table import Column

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show, table
from flows.common.data import Splits, ingest_dataset, recommended_training
from flows.common.display_names import names_of_data, names_of_vectors, require_unique
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
from flows.common.publish import folder_of_run, publish_page, url_of
from flows.common.training import Training, model_to_start_from, suited_to, train_each
from flows.common.vectors import composes_oov_words, encode_dataset, vectors_for
from infra.artifacts.stage import Output
from infra.cluster.allotment import Resources
from infra.errors import RetryableError, UserError, first_line
from infra.form import Seed
from infra.masking import mask_secrets
from infra.progress import Progress
from tasks.datasets.catalog import COMPARISONS
from tasks.reports.comparison import Cell, CellTrainings, Failure
from tasks.stages import compare_stage, error_report_stage
from tasks.tracking import runs

# The columns that the terminal shows; the page and Prefect show all columns.
TERMINAL_COLUMNS = ("dataset", "vectors", "variant", "EM", "F1", "F1 gain, 95 %", "minutes")
PAGE = "comparison.html"


@dataclass(frozen=True)
class Evaluated:
    """A training that has ended, and its error report."""

    trained: Output
    error_report: Output


@dataclass(frozen=True)
class Outcomes:
    """All trainings of a comparison, and the results or errors of those that have ended."""

    grid: Sequence[tuple[Cell, Training]]
    ended: dict[int, Evaluated | Exception] = field(default_factory=dict)

    @property
    def cells(self) -> list[CellTrainings]:
        """All cells of the table, in the order of the grid, with the results so far."""
        results: dict[Cell, list[Evaluated]] = {cell: [] for cell, _ in self.grid}
        for number, (cell, _) in enumerate(self.grid):
            if isinstance(outcome := self.ended.get(number), Evaluated):
                results[cell].append(outcome)
        return [
            CellTrainings(
                cell,
                [result.trained.folder for result in own],
                [result.error_report.folder for result in own],
            )
            for cell, own in results.items()
        ]

    @property
    def failed(self) -> list[Failure]:
        """The trainings that failed, in the order of the grid."""
        return [
            Failure(cell, training.config.training.seed, sentence(outcome))
            for number, (cell, training) in enumerate(self.grid)
            if isinstance(outcome := self.ended.get(number), Exception)
        ]

    @property
    def errors(self) -> list[Exception]:
        """The errors of the failed trainings, in the order of the grid, but mistakes of the user
        last, because they would recur in a retry."""
        ordered = (self.ended[number] for number in sorted(self.ended))
        errors = [outcome for outcome in ordered if isinstance(outcome, Exception)]
        return sorted(errors, key=recurs)

    def failure(self, page: str) -> UserError:
        """The error of a comparison some of whose trainings failed; `page` has the others.

        It is retryable if one of them failed for another reason than a mistake of the user.
        """
        failed = self.failed
        names = "\n".join(f"{f.cell.name} · seed {f.seed}: {f.error}" for f in failed)
        return (UserError if recurs(self.errors[0]) else RetryableError)(
            f"{len(failed)} of {len(self.grid)} trainings failed:\n{names}\n"
            f"The page has the others: {page}. Run the same command again to train only what is "
            "missing."
        )

    def time_left(self, seconds: float) -> str:
        """The estimated time until all trainings have ended, such as "1:23:00 left".

        Those to come are expected to take as long as those that ended; `seconds` is the time since
        the trainings started. Empty if none has been trained since then.
        """
        results = [result for result in self.ended.values() if isinstance(result, Evaluated)]
        rate = sum(not result.trained.cached for result in results) / seconds
        pending = len(self.grid) - len(self.ended)
        return Progress("", 0, pending, "trainings", rate, "").time_left


def recurs(error: Exception) -> bool:
    """Whether a failed training would fail again, because of a mistake of the user."""
    return isinstance(error, UserError) and not isinstance(error, RetryableError)


def sentence(error: Exception) -> str:
    """The error of a failed training in one line."""
    if isinstance(error, UserError):
        return str(error)
    return f"{type(error).__name__}: {mask_secrets(first_line(error))}"


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
        list[Seed],
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

    If trainings fail, the others go on, and the run ends as failed. A run with the same parameters
    trains only what is missing.
    """
    require_unique(data=data, variants=variants, seeds=seeds, vectors=vectors)
    if "seed" in training.changes():
        raise UserError(
            "training.seed would have no effect, because each variant is trained once per seed in "
            "seeds. Set seeds instead, or omit it."
        )
    start = model_to_start_from(training.start_from)
    grid = build_grid(data, vectors, list(product(variants, seeds)), vocabulary, training, start)
    outcomes, start_seconds = Outcomes(grid), time.monotonic()
    with closing(train_each([cell_training for _, cell_training in grid], resources)) as ended:
        for number, outcome in ended:
            outcomes.ended[number] = with_error_report(grid[number][1].splits, outcome)
            left = outcomes.time_left(time.monotonic() - start_seconds)
            counted = f"{len(outcomes.ended)} of {len(grid)} trainings have ended"
            get_run_logger().info(f"{counted}, about {left}." if left else f"{counted}.")
    return _publish(outcomes, seeds)


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


def with_error_report(splits: Splits, outcome: Output | Exception) -> Evaluated | Exception:
    """The result of a training, with its error report; the error if either failed.

    A failed report is not raised: it would end the trainings that are under way.
    """
    if isinstance(outcome, Exception):
        return outcome
    try:
        errors = error_report_stage(splits.name, outcome.folder, splits.dev.folder)
    except Exception as error:
        lost = f"the training ended, but not its error report: {sentence(error)}"
        return UserError(lost) if recurs(error) else RetryableError(lost)
    return Evaluated(outcome, errors)


def _publish(outcomes: Outcomes, seeds: Sequence[int]) -> dict[str, Any]:
    """Publish the comparison when all trainings have ended.

    Raises:
        UserError: some trainings failed; the page has the others. Retryable if any of them failed
            for another reason than a mistake of the user.
        Exception: all failed; the error of the first one for which a retry may help, if any.
    """
    if len(outcomes.failed) == len(outcomes.grid):
        raise outcomes.errors[0]
    comparison = compare_stage(outcomes.cells, seeds, outcomes.failed)
    datasets = dict.fromkeys(training.splits.name for _, training in outcomes.grid)
    summary = publish_comparison(comparison, datasets, complete=not outcomes.failed)
    if outcomes.failed:
        raise outcomes.failure(summary["report"])
    return summary


def publish_comparison(
    comparison: Output, datasets: Iterable[str], complete: bool
) -> dict[str, Any]:
    """Publish the table and the plot, and show them in Prefect and MLflow.

    The MLflow runs of an incomplete comparison stay open; they fail with the flow. A comparison
    that is unchanged was logged before, unless an earlier attempt was interrupted, or another run
    made it at the same time.
    """
    report = publish_page(comparison.folder / PAGE, f"{COMPARISONS}/{folder_of_run()}/{PAGE}")
    url = url_of(report, None)
    if not comparison.cached or runs.has_runs(str(flow_run.id)):
        for run_id in map(runs.parent_run_of, datasets):
            url = url_of(report, run_id)
            runs.log_artifacts(run_id, [report, comparison.folder / "comparison.json"])
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
    columns = [Column(title, no_wrap=title in ("variant", "vectors")) for title in shown]
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
