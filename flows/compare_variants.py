"""Flow `compare-variants`: compare variants × seeds × datasets × vectors in one table."""

import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from pydantic import BeforeValidator, Field
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.commands.flow_command import flow_command
from flows.common.casing import require_same_casing
from flows.common.data_files import recommended_training
from flows.common.display_names import names_of_data, names_of_vectors, require_unique
from flows.common.encoding import encode_dataset
from flows.common.hooks import CLEANUP_HOOKS
from flows.common.parameters import (
    DataParameters,
    TrainingParameters,
    VariantName,
    Variants,
    VectorParameters,
    composes_oov_words,
    configure,
    vectors_for,
)
from flows.common.results import (
    ExampleQuestions,
    error_report,
    match_examples,
    publish_page,
    publish_report,
    reports_folder,
)
from flows.common.splits import ingest_dataset
from flows.common.training import Training, report_on, train_all
from flows.common.user_errors import report_user_errors
from flows.common.warm_start import model_to_start_from
from infra.artifacts.stage import Output
from infra.ray_cluster import Resources
from infra.settings import settings
from models.configs.variant import VariantConfig
from tasks.reports.comparison import Cell, CellTrainings
from tasks.stages import comparing
from tasks.text.build_vocabulary import VocabularyParameters
from tasks.tracking import runs
from tasks.training.train_variant import parent_run_of


def from_name(field: str) -> Callable[[Any], Any]:
    """Accept a plain name or path as a group of fields of which only `field` is set."""
    return lambda value: {field: value} if isinstance(value, str) else value


Datasets = Annotated[
    list[Annotated[DataParameters, BeforeValidator(from_name("dataset"))]],
    Field(
        min_length=1,
        description="Datasets to train on. On each, gains are relative to the first variant with "
        "the first vectors.",
    ),
]
Seeds = Annotated[
    list[Annotated[int, Field(ge=0)]],
    Field(min_length=1, description="Training seeds. Each variant is trained once per seed."),
]
AllVectors = Annotated[
    list[Annotated[VectorParameters, BeforeValidator(from_name("source"))]],
    Field(min_length=1, description="Sets of word vectors to compare."),
]
COMPARED_PARAMETERS = ("data", "variants", "seeds", "vectors")
TERMINAL_COLUMNS = ("dataset", "vectors", "variant", "EM", "F1", "F1 gain, 95 %", "minutes")
"""The columns that the terminal shows; the page and Prefect show all columns."""
REPORTS_FOLDER = "comparison"
"""The folder of the reports that the comparison page links to."""


@dataclass(frozen=True)
class ComparedVariant:
    """A variant trained from one seed, and the table cell that it counts towards."""

    cell: Cell
    training: Training
    trained: Output
    error_report: Output

    @property
    def seed(self) -> int:
        """The seed of the training."""
        return self.training.config.training.seed


@dataclass(frozen=True)
class GroupReport:
    """The report on all variants of one dataset and one set of vectors, from the first seed."""

    number: int
    results: list[ComparedVariant]
    report: Output

    @property
    def title(self) -> str:
        """The dataset, the vectors and the seed."""
        first = self.results[0]
        return f"{first.cell.dataset} · {first.cell.vectors} · seed {first.seed}"

    @property
    def dataset(self) -> str:
        """The name under which its runs are filed."""
        return self.results[0].training.splits.name

    @property
    def url(self) -> str:
        """URL of the report, relative to the comparison page."""
        return quote(f"{REPORTS_FOLDER}/{self.number}/{self.dataset}.html")


@flow(
    name="compare-variants",
    description=__doc__,
    timeout_seconds=settings().time_limit_hours * 3600,
    **CLEANUP_HOOKS,
)
@report_user_errors
def compare_variants(
    data: Datasets = [DataParameters()],
    variants: Variants = ["baseline", "char"],
    seeds: Seeds = [0, 1, 2],
    vectors: AllVectors = [VectorParameters()],
    vocabulary: VocabularyParameters = VocabularyParameters(),
    training: TrainingParameters = TrainingParameters(),
    resources: Resources = Resources(),
    examples: ExampleQuestions = [],
) -> dict[str, Any]:
    """Train every variant from every seed on all datasets and vectors.

    Returns the table's rows and the path of the report. The reference of each dataset is the first
    variant with the first vectors. Datasets or vectors of the same name are distinguished by their
    folders or settings. The champion does not change.
    """
    compared: tuple[Sequence[Any], ...] = (data, variants, seeds, vectors)
    for field, items in zip(COMPARED_PARAMETERS, compared, strict=True):
        require_unique(field, items)
    require_same_casing(vectors, vocabulary)
    start = model_to_start_from(training.start_from)
    grid = build_grid(data, vectors, list(product(variants, seeds)), vocabulary, training, start)
    matched = match_examples([cell_training.splits for _, cell_training in grid], examples)
    trained = train_all([cell_training for _, cell_training in grid], resources)
    results = [
        ComparedVariant(
            cell, cell_training, output, error_report(cell_training.splits, output, names)
        )
        for (cell, cell_training), output, names in zip(grid, trained, matched, strict=True)
    ]
    pages = _group_reports([result for result in results if result.seed == seeds[0]])
    cells: defaultdict[Cell, list[ComparedVariant]] = defaultdict(list)
    for result in results:
        cells[result.cell].append(result)
    comparison = comparing(
        [
            CellTrainings(
                cell,
                [result.trained.folder for result in group],
                [result.error_report.folder for result in group],
            )
            for cell, group in cells.items()
        ],
        seeds,
        {page.title: page.url for page in pages},
    )
    return _publish(comparison, pages)


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
    for dataset, source in product(data, vectors):  # check all before training any vectors
        vectors_for([_configure(dataset, *model, training) for model in models], source)
    grid = []
    for dataset_name, dataset in zip(names_of_data(data), data, strict=True):
        splits = ingest_dataset(dataset)
        for vectors_name, source in zip(names_of_vectors(vectors), vectors, strict=True):
            configs = [_configure(dataset, *model, training) for model in models]
            needed_vectors = vectors_for(configs, source)
            encoded = encode_dataset(
                splits, needed_vectors, vocabulary, composes_oov_words(configs)
            )
            grid += [
                (
                    Cell(dataset_name, vectors_name, config.name),
                    Training(config, splits, encoded, start),
                )
                for config in configs
            ]
    return grid


def _configure(
    data: DataParameters, variant: VariantName, seed: int, training: TrainingParameters
) -> VariantConfig:
    return configure(variant, recommended_training(data), training.changes(), {"seed": seed})


def _group_reports(results: Sequence[ComparedVariant]) -> list[GroupReport]:
    """One report for each combination of dataset and vectors."""
    groups: defaultdict[tuple[str, str], list[ComparedVariant]] = defaultdict(list)
    for result in results:
        groups[result.cell.dataset, result.cell.vectors].append(result)
    return [
        GroupReport(
            number, group, report_on(group[0].training, [result.trained for result in group])
        )
        for number, group in enumerate(groups.values(), start=1)
    ]


def _publish(comparison: Output, pages: Sequence[GroupReport]) -> dict[str, Any]:
    """Publish the table, the plot and the reports, and show them in Prefect and MLflow."""
    # Remove the reports of an earlier comparison.
    shutil.rmtree(reports_folder() / REPORTS_FOLDER, ignore_errors=True)
    for page in pages:
        error_reports = [result.error_report for result in page.results]
        publish_report(page.dataset, page.report, error_reports, f"{REPORTS_FOLDER}/{page.number}/")
    report = publish_page(comparison.folder / "comparison.html", "comparison.html")
    create_markdown_artifact(f"{comparison.facts['markdown']}\nPlot: {report}", key="comparison")
    if not comparison.cached:
        uri = settings().tracking_uri
        for dataset in dict.fromkeys(page.dataset for page in pages):
            run_id = parent_run_of(dataset)
            files = [comparison.folder / f"comparison.{kind}" for kind in ("html", "json")]
            runs.log_artifacts(uri, run_id, files)
            runs.finish(uri, run_id, "FINISHED")
    return {"rows": comparison.facts["rows"], "report": str(report)}


def announce(summary: dict[str, Any]) -> None:
    """Print the columns that fit in a terminal, and the path of the full report."""
    console = Console()
    rows = summary["rows"]
    constant = [
        key for key in ("dataset", "vectors", "seeds") if len({row[key] for row in rows}) == 1
    ]
    settings_text = " · ".join(f"{key} {rows[0][key]}" for key in constant)
    shown = [key for key in TERMINAL_COLUMNS if key not in constant]
    table = Table(title=escape(f"{settings_text}: all dev questions; * marks significant gains"))
    for title in shown:
        table.add_column(title, overflow="fold", no_wrap=title in ("variant", "vectors"))
    for row in rows:
        table.add_row(*(escape(row[key]) for key in shown))
    console.print("", table, "")
    line = f"Report     {summary['report']} (plot, and all {len(rows[0])} columns)"
    console.print(line, soft_wrap=True, highlight=False, markup=False)


command = flow_command(compare_variants, announce)
