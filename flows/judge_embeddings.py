"""Flow `judge-embeddings`: what sets of word vectors are worth, side by side."""

import sys
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run
from pydantic import Field
from rich.console import Console
from rich.table import Table

from flows.command_line import parameters_from
from flows.ingest import ingest_dataset
from flows.names import names_of_vectors, require_each_once
from flows.parameters import DataParameters, VectorParameters
from flows.refusals import result_or_exit, told_in_a_sentence
from flows.reports import publish_page
from flows.train_embeddings import vector_input
from infra.settings import settings
from tasks import tracking
from tasks.embeddings.analogies import ANALOGIES
from tasks.embeddings.judge import JUDGEMENT, Asked
from tasks.embeddings.similarity import SIMILARITY_TESTS
from tasks.fetching import Source, is_in_mirror
from tasks.stages import Output
from tasks.steps import fetching, judging_vectors, showing_judgement
from tasks.vectors import PACKAGED, VectorSource

EXPERIMENT = "bidaflow/embeddings"
PUBLISHED: dict[str, Source] = {**SIMILARITY_TESTS, "analogies": ANALOGIES}
"""The tests that a set is put to, by their names."""

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
    """The files of the published tests by their names; those that aren't at hand, if asked for."""
    return {
        name: fetching(test).folder / test.name
        for name, test in PUBLISHED.items()
        if fetch or fetching.is_made(test) or is_in_mirror(test)
    }


@flow(name="judge-embeddings", description=__doc__)
@told_in_a_sentence
def judge_embeddings(
    vectors: Vectors = [PACKAGED],
    dataset: Dataset = None,
    look: Look = Asked(),
    lower_case: LowerCase = True,
    fetch: Fetch = False,
) -> dict[str, Any]:
    """Judge the sets, log a run for each to MLflow; returns the numbers, and where the page and
    each set's judgement are."""
    require_each_once("vectors", vectors)
    names = names_of_vectors([VectorParameters(source=spec) for spec in vectors])
    tests, splits = published_tests(fetch), []
    left_out = [name for name in PUBLISHED if name not in tests]
    if dataset is not None:
        ingested = ingest_dataset(DataParameters(dataset=dataset))
        parts = (ingested.train, ingested.validation, ingested.dev)
        splits = [part.folder for part in parts if part is not None]
    judged = [
        judging_vectors(vector_input(spec), list(tests.values()), splits, look, lower_case)
        for spec in vectors
    ]
    page = showing_judgement(names, [output.folder for output in judged], left_out)
    name = f"vectors-{'-'.join(names)}.html".replace("/", "_")
    file = publish_page(page.folder / "judgement.html", name)
    _log(names, vectors, judged, file)
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


def _rows(metrics: dict[str, dict[str, float]]) -> list[dict[str, str]]:
    """A row a number, a column a set."""
    names = dict.fromkeys(name for found in metrics.values() for name in found)
    return [
        {"": name}
        | {s: f"{found[name]:.3f}" if name in found else "–" for s, found in metrics.items()}
        for name in names
    ]


def _log(names: list[str], vectors: list[str], judged: list[Output], page: Path) -> None:
    uri = settings().tracking_uri
    parent = tracking.parent_run(
        uri,
        EXPERIMENT,
        flow_run_id=str(flow_run.id),
        flow_run_url=flow_run.ui_url,
        name=str(flow_run.name),
        tags={},
    )
    for name, spec, output in zip(names, vectors, judged, strict=True):
        config = {"vectors": spec, "words": output.facts["words"]}
        run = tracking.start_variant_run(uri, parent, name, output.folder.name, config, {}, [])
        tracking.EpochLogger(uri, run).epoch(0, output.facts["metrics"])
        tracking.finish(uri, run, "FINISHED")
    tracking.log_artifacts(uri, parent, [page])
    tracking.finish(uri, parent, "FINISHED")


def announce(result: dict[str, Any]) -> None:
    """Print the numbers, and where the page is."""
    console = Console()
    if result["left_out"]:
        names = ", ".join(result["left_out"])
        console.print(
            f"\nLeft out, as their files are not here: {names}. ARGS=--fetch downloads them.",
            soft_wrap=True,
            highlight=False,
        )
    table = Table()
    for title in next(iter(result["rows"]), {}):  # a small set may have no number at all
        table.add_column(title, justify="right" if title else "left")
    for row in result["rows"]:
        table.add_row(*row.values())
    console.print("", table, "")
    console.print(f"Page       {result['page']}", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    parameters = parameters_from(sys.argv[1:], judge_embeddings)
    announce(result_or_exit(judge_embeddings(**parameters, return_state=True)))
