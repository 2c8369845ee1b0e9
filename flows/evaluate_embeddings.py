"""Flow `evaluate-embeddings`: evaluate sets of word vectors side by side."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run
from pydantic import Field
from rich.console import Console
from rich.table import Table

from flows.common.casing import warn_of_another_case
from flows.common.cli import parameters_from
from flows.common.display_names import names_of_vectors, require_each_once
from flows.common.parameters import DataParameters, VectorParameters
from flows.common.results import publish_page
from flows.common.splits import Splits, ingest_dataset
from flows.common.user_errors import result_or_exit, told_in_a_sentence
from flows.common.vectors import vector_input
from infra.artifacts.manifest import read_manifest
from infra.artifacts.stage import Output
from infra.settings import settings
from tasks.datasets.fetch import Source, is_in_mirror
from tasks.embeddings.evaluation.analogies import ANALOGIES
from tasks.embeddings.evaluation.evaluate import JUDGEMENT, Asked
from tasks.embeddings.evaluation.similarity import SIMILARITY_TESTS
from tasks.embeddings.formats.source import PACKAGED, VectorSource
from tasks.embeddings.training.provenance import source_digest, vector_parameters
from tasks.stages import fetching, judging_vectors, showing_judgement
from tasks.tracking import metric_logger, runs

EXPERIMENT = "bidaflow/embeddings"
PUBLISHED: dict[str, Source] = {**SIMILARITY_TESTS, "analogies": ANALOGIES}
"""The published tests on which sets are evaluated, by name."""

Vectors = Annotated[
    list[VectorSource],
    Field(min_length=1, description="The sets to judge: glove-6b-50d, or files of vectors."),
]
Dataset = Annotated[
    str | None,
    Field(description="A dataset, known or your own, of whose words the coverage is told."),
]
LowerCase = Annotated[
    bool,
    Field(
        description="Look the dataset's words up, and spell words by n-grams, in lower case, as "
        "training does; turn it off for sets whose words keep their case."
    ),
]
Look = Annotated[Asked, Field(description="What is looked up in every set.")]
Fetch = Annotated[
    bool,
    Field(
        description="Download the published tests of similarity and analogies that are not here; "
        "else they are left out."
    ),
]


def published_tests(fetch: bool) -> dict[str, Path]:
    """Files of the published tests by name; tests not at hand are downloaded only with `fetch`."""
    return {
        name: fetching(test).folder / test.name
        for name, test in PUBLISHED.items()
        if fetch or fetching.is_made(test) or is_in_mirror(test)
    }


@flow(name="evaluate-embeddings", description=__doc__)
@told_in_a_sentence
def evaluate_embeddings(
    vectors: Vectors = [PACKAGED],
    dataset: Dataset = None,
    look: Look = Asked(),
    lower_case: LowerCase = True,
    fetch: Fetch = False,
) -> dict[str, Any]:
    """Evaluate the sets, and log an MLflow run for each.

    Returns the metrics, and the paths of the page and of each set's evaluation.
    """
    require_each_once("vectors", vectors)
    names = names_of_vectors([VectorParameters(source=spec) for spec in vectors])
    tests = published_tests(fetch)
    left_out = [name for name in PUBLISHED if name not in tests]
    ingested = None if dataset is None else ingest_dataset(DataParameters(dataset=dataset))
    inputs = _inputs(ingested)
    splits = [Path(each.source) for each in inputs]
    judged = [
        judging_vectors(vector_input(spec), list(tests.values()), splits, look, lower_case)
        for spec in vectors
    ]
    for spec, output in zip(vectors, judged, strict=True):
        warn_of_another_case(spec, output.facts["history"], "lower_case", lower_case)
    page = showing_judgement(names, [output.folder for output in judged], left_out)
    name = f"vectors-{'-'.join(names)}.html".replace("/", "_")
    file = publish_page(page.folder / "judgement.html", name)
    data = None if ingested is None else ingested.name
    _log(names, judged, {"dataset": data, "lower_case": lower_case}, inputs, file)
    metrics = {n: o.facts["metrics"] for n, o in zip(names, judged, strict=True)}
    rows = _rows(metrics)
    create_table_artifact(rows, key="judgement", description=f"Word vectors judged; page: {file}")
    return {
        "metrics": metrics,
        "rows": rows,
        "page": str(file),
        "judgements": [str(output.folder / JUDGEMENT) for output in judged],
        "left_out": left_out,
    }


def _inputs(ingested: Splits | None) -> list[runs.InputDataset]:
    """The splits of a dataset as MLflow inputs; empty without a dataset."""
    if ingested is None:
        return []
    parts: dict[runs.Split, Output | None] = {
        "train": ingested.train,
        "validation": ingested.validation,
        "dev": ingested.dev,
    }
    folders = {name: part.folder for name, part in parts.items() if part is not None}
    return runs.split_datasets(ingested.name, folders)


def _rows(metrics: dict[str, dict[str, float]]) -> list[dict[str, str]]:
    """One row per metric, one column per set."""
    names = dict.fromkeys(name for found in metrics.values() for name in found)
    return [
        {"": name}
        | {s: f"{found[name]:.3f}" if name in found else "–" for s, found in metrics.items()}
        for name in names
    ]


def _log(
    names: list[str],
    judged: list[Output],
    asked: Mapping[str, Any],
    inputs: list[runs.InputDataset],
    page: Path,
) -> None:
    """Log one MLflow run per set, below a parent run that holds the page.

    `asked` holds the settings shared by all evaluations.
    """
    uri = settings().tracking_uri
    parent = runs.parent_run(
        uri,
        EXPERIMENT,
        flow_run_id=str(flow_run.id),
        flow_run_url=flow_run.ui_url,
        name=str(flow_run.name),
        tags={},
    )
    for name, output in zip(names, judged, strict=True):
        made, facts = read_manifest(output.folder), output.facts
        vectors = vector_parameters(made, facts["history"])
        run = runs.start_variant_run(
            uri,
            parent,
            name,
            output.folder.name,
            config={**asked, "words": facts["words"], "vectors": vectors},
            tags={"vectors.digest": source_digest(made), **runs.digest_tags(inputs)},
            datasets=inputs,
        )
        metric_logger.EpochLogger(uri, run).epoch(0, facts["metrics"])
        runs.log_artifacts(uri, run, [output.folder / JUDGEMENT])
        runs.finish(uri, run, "FINISHED")
    runs.log_artifacts(uri, parent, [page])
    runs.finish(uri, parent, "FINISHED")


def announce(result: dict[str, Any]) -> None:
    """Print the metrics and the path of the page."""
    console = Console()
    if result["left_out"]:
        names = ", ".join(result["left_out"])
        console.print(
            f"\nLeft out, as their files are not here: {names}. ARGS=--fetch downloads them.",
            soft_wrap=True,
            highlight=False,
        )
    table = Table()
    for title in next(iter(result["rows"]), {}):  # a small set may have no metrics
        table.add_column(title, justify="right" if title else "left")
    for row in result["rows"]:
        table.add_row(*row.values())
    console.print("", table, "")
    console.print(f"Page       {result['page']}", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    parameters = parameters_from(sys.argv[1:], evaluate_embeddings)
    announce(result_or_exit(evaluate_embeddings(**parameters, return_state=True)))
