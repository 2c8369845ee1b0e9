"""Flow `compare-variants`: compare variants × seeds × datasets × vectors in one table."""

import shutil
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from pydantic import Field
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows.common.casing import require_one_case
from flows.common.cli import parameters_from
from flows.common.data_files import suited_to
from flows.common.display_names import names_of_data, names_of_vectors, require_each_once
from flows.common.encoding import encode_dataset
from flows.common.hooks import ENDING_RUNS
from flows.common.parameters import (
    DataParameters,
    TrainingParameters,
    VariantName,
    Variants,
    VectorParameters,
    configure,
    reads_spelt_words,
    vectors_for,
)
from flows.common.results import (
    Examples,
    error_report,
    examples_of_each,
    publish_page,
    publish_report,
    reports_folder,
)
from flows.common.splits import ingest_dataset
from flows.common.training import Training, report_on, train_all
from flows.common.user_errors import result_or_exit, told_in_a_sentence
from flows.common.warm_start import model_to_start_from
from infra.artifacts.stage import Output
from infra.ray_cluster import Resources
from infra.settings import settings
from models.configs.variant import VariantConfig
from tasks.reports.comparison import Cell
from tasks.stages import comparing
from tasks.text.build_vocabulary import VocabularyParameters
from tasks.tracking import runs
from tasks.training.train_variant import parent_run_of

Datasets = Annotated[
    list[DataParameters],
    Field(min_length=1, description="The datasets; each one's table has its own reference."),
]
Seeds = Annotated[
    list[Annotated[int, Field(ge=0)]],
    Field(min_length=1, description="Each variant is trained once from each of these seeds."),
]
AllVectors = Annotated[
    list[VectorParameters], Field(min_length=1, description="The word vectors to compare.")
]
COMPARED = ("data", "variants", "seeds", "vectors")
TOLD = ("dataset", "vectors", "variant", "EM", "F1", "F1 gain, 95 %", "minutes")
"""The columns that the terminal shows; the page and Prefect show all columns."""
PAGES = "comparison"
"""The folder of the reports that the comparison page links to."""


@dataclass(frozen=True)
class Result:
    """A variant trained from one seed, and the table cell that it counts towards."""

    cell: Cell
    training: Training
    trained: Output
    errors: Output  # its error report

    @property
    def seed(self) -> int:
        """The seed of the training."""
        return self.training.config.training.seed


@dataclass(frozen=True)
class Page:
    """The report on all variants of one dataset and one set of vectors, from the first seed."""

    number: int
    results: list[Result]
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
    def address(self) -> str:
        """URL of the report, relative to the comparison page."""
        return quote(f"{PAGES}/{self.number}/{self.dataset}.html")


@flow(
    name="compare-variants",
    description=__doc__,
    timeout_seconds=settings().time_limit_hours * 3600,
    **ENDING_RUNS,
)
@told_in_a_sentence
def compare_variants(
    data: Datasets = [DataParameters()],
    variants: Variants = ["baseline", "char"],
    seeds: Seeds = [0, 1, 2],
    vectors: AllVectors = [VectorParameters()],
    vocabulary: VocabularyParameters = VocabularyParameters(),
    training: TrainingParameters = TrainingParameters(),
    resources: Resources = Resources(),
    examples: Examples = [],
) -> dict[str, Any]:
    """Train every variant from every seed on all datasets and vectors.

    Returns the table's rows and the path of the report. The reference of each dataset is the first
    variant with the first vectors. Datasets or vectors of the same name are distinguished by their
    folders or settings. The champion does not change.
    """
    compared: tuple[Sequence[Any], ...] = (data, variants, seeds, vectors)
    for field, given in zip(COMPARED, compared, strict=True):
        require_each_once(field, given)
    require_one_case(vectors, vocabulary)
    start = model_to_start_from(training.start_from)
    grid = grid_of(data, vectors, list(product(variants, seeds)), vocabulary, training, start)
    drawn = examples_of_each([training_of.splits for _, training_of in grid], examples)
    trained = train_all([training for _, training in grid], resources)
    results = [
        Result(cell, training_of, output, error_report(training_of.splits, output, names))
        for (cell, training_of), output, names in zip(grid, trained, drawn, strict=True)
    ]
    pages = _pages([result for result in results if result.seed == seeds[0]])
    cells: defaultdict[Cell, list[Result]] = defaultdict(list)
    for result in results:
        cells[result.cell].append(result)
    comparison = comparing(
        list(cells),
        [[result.trained.folder for result in of] for of in cells.values()],
        [[result.errors.folder for result in of] for of in cells.values()],
        seeds,
        {page.title: page.address for page in pages},
    )
    return _publish(comparison, pages)


def grid_of(
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
    for one, source in product(data, vectors):  # check all before training any vectors
        vectors_for([_configured(one, *model, training) for model in models], source)
    grid = []
    for dataset, one in zip(names_of_data(data), data, strict=True):
        splits = ingest_dataset(one)
        for name, source in zip(names_of_vectors(vectors), vectors, strict=True):
            configs = [_configured(one, *model, training) for model in models]
            wanted = vectors_for(configs, source)
            encoded = encode_dataset(splits, wanted, vocabulary, reads_spelt_words(configs))
            grid += [
                (Cell(dataset, name, config.name), Training(config, splits, encoded, start))
                for config in configs
            ]
    return grid


def _configured(
    data: DataParameters, variant: VariantName, seed: int, training: TrainingParameters
) -> VariantConfig:
    return configure(variant, suited_to(data), training.changes(), {"seed": seed})


def _pages(results: Sequence[Result]) -> list[Page]:
    """One report for each combination of dataset and vectors."""
    groups: defaultdict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        groups[result.cell.dataset, result.cell.vectors].append(result)
    return [
        Page(number, of, report_on(of[0].training, [result.trained for result in of]))
        for number, of in enumerate(groups.values(), start=1)
    ]


def _publish(comparison: Output, pages: Sequence[Page]) -> dict[str, Any]:
    """Publish the table, the plot and the reports, and show them in Prefect and MLflow."""
    shutil.rmtree(reports_folder() / PAGES, ignore_errors=True)  # from an earlier comparison
    for page in pages:
        errors = [result.errors for result in page.results]
        publish_report(page.dataset, page.report, errors, f"{PAGES}/{page.number}/")
    place = publish_page(comparison.folder / "comparison.html", "comparison.html")
    create_markdown_artifact(f"{comparison.facts['markdown']}\nThe plot: {place}", key="comparison")
    if not comparison.cached:
        uri = settings().tracking_uri
        for dataset in dict.fromkeys(page.dataset for page in pages):
            run_id = parent_run_of(dataset)
            files = [comparison.folder / f"comparison.{kind}" for kind in ("html", "json")]
            runs.log_artifacts(uri, run_id, files)
            runs.finish(uri, run_id, "FINISHED")
    return {"rows": comparison.facts["rows"], "report": str(place)}


def announce(summary: dict[str, Any]) -> None:
    """Print the columns that fit in a terminal, and the path of the full report."""
    console = Console()
    rows = summary["rows"]
    alike = [key for key in ("dataset", "vectors", "seeds") if len({row[key] for row in rows}) == 1]
    of = " · ".join(f"{key} {rows[0][key]}" for key in alike)
    shown = [key for key in TOLD if key not in alike]
    table = Table(title=escape(f"{of}: all dev questions; * marks differences beyond chance"))
    for title in shown:
        table.add_column(title, overflow="fold", no_wrap=title in ("variant", "vectors"))
    for row in rows:
        table.add_row(*(escape(row[key]) for key in shown))
    console.print("", table, "")
    line = f"Report     {summary['report']} (the plot, and {len(rows[0])} columns)"
    console.print(line, soft_wrap=True, highlight=False, markup=False)


if __name__ == "__main__":
    parameters = parameters_from(sys.argv[1:], compare_variants)
    announce(result_or_exit(compare_variants(**parameters, return_state=True)))
