"""Flow `evaluate-embeddings`: evaluate sets of word vectors and language models side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.artifacts import create_table_artifact
from pydantic import Field
from rich.table import Column

from flows.commands.flow_command import flow_command
from flows.commands.terminal import show, table
from flows.common.data import ingest_texts
from flows.common.display_names import distinct_names, path_of, require_unique
from flows.common.failures import STATE_HOOKS, report_user_errors
from flows.common.parameters import NamedSet
from flows.common.publish import publish_page, url_of
from flows.common.vectors import resolve, warn_if_casing_differs
from infra.artifacts.manifest import digest_of, read_manifest
from infra.artifacts.stage import Output
from tasks.datasets.catalog import EMBEDDINGS
from tasks.datasets.fetch import Source, is_in_mirror
from tasks.datasets.paths import LONGEST_NAME
from tasks.embeddings.contextual.source import find_bilm, is_bilm
from tasks.embeddings.evaluation.evaluate import EVALUATION, Queries
from tasks.embeddings.evaluation.homonyms import HOMONYMS
from tasks.embeddings.evaluation.published_tests import ANALOGIES, SIMILARITY_TESTS
from tasks.embeddings.formats.source import PACKAGED
from tasks.stages import (
    embeddings_report_stage,
    evaluate_bilm_stage,
    evaluate_vectors_stage,
    fetch_stage,
)
from tasks.tracking import runs
from tasks.training.run_params import source_digest, vector_parameters

# The published tests on which sets are evaluated, by name.
PUBLISHED: dict[str, Source] = {**SIMILARITY_TESTS, "analogies": ANALOGIES}
# What each metric measures, by the part of the evaluation and the suffix of its MLflow name.
TITLES = {
    ("similarity", ""): "{}: rank correlation with people",
    ("similarity", "covered"): "{}: share of pairs covered",
    ("homonyms", ""): "Homonyms, {}: share of senses right",
    ("analogies", ""): "Analogies, {}: share correct",
    ("coverage", "tokens"): "Coverage of {}: tokens",
    ("coverage", "types"): "Coverage of {}: distinct words",
    ("bias", ""): "Bias, {}: effect size",
    ("bias", "p"): "Bias, {}: p-value",
}


def published_tests(fetch: bool) -> dict[str, Path]:
    """Files of the published tests by name; tests not at hand are downloaded only with `fetch`."""
    return {
        name: fetch_stage(test).folder / test.name
        for name, test in PUBLISHED.items()
        if fetch or fetch_stage.is_built(test) or is_in_mirror(test)
    }


@flow(name="evaluate-embeddings", description=__doc__, **STATE_HOOKS)
@report_user_errors
def evaluate_embeddings(
    vectors: Annotated[
        list[NamedSet],
        Field(
            min_length=1,
            description="Sets to evaluate: glove-6b-50d, known sets, names of sets trained here, "
            "files, or language models (ELMo): the name of one that was trained here, its file, or "
            "released weights.",
        ),
    ] = [PACKAGED],
    dataset: Annotated[
        str | None,
        Field(min_length=1, description="Dataset whose word coverage is measured. Empty: none."),
    ] = None,
    queries: Annotated[
        Queries,
        Field(description="Words, words in sentences, and analogies to look up in every set."),
    ] = Queries(),
    lower_case: Annotated[
        bool,
        Field(
            description="Lower-case words before they are looked up or composed from n-grams. "
            "Disable for sets that were trained on cased text."
        ),
    ] = True,
    fetch: Annotated[
        bool,
        Field(
            description="Download missing similarity and analogy tests. If disabled, missing tests "
            "are skipped."
        ),
    ] = False,
) -> dict[str, Any]:
    """Evaluate the sets, and log an MLflow run for each.

    Returns the metrics, and the paths of the report and of each set's evaluation.
    """
    require_unique(vectors=vectors)
    names = distinct_names([(path_of(source), {}) for source in vectors])
    tests = published_tests(fetch)
    left_out = [name for name in PUBLISHED if name not in tests]
    read = None if dataset is None else ingest_texts(dataset)
    inputs = [] if read is None else runs.split_datasets(read.name, read.folders)
    splits = [Path(split.source) for split in inputs]
    files = [*tests.values(), HOMONYMS]
    evaluated = [_evaluate(spec, files, splits, queries, lower_case) for spec in vectors]
    report = embeddings_report_stage(
        names,
        [output.folder for output in evaluated],
        left_out,
        inputs[0].name if inputs else None,
    )
    file = publish_page(report.folder / "embeddings.html", page_name(names, inputs))
    outputs = dict(zip(names, evaluated, strict=True))
    run_id = _log(outputs, inputs, lower_case, file)
    metrics = {name: output.facts["metrics"] for name, output in outputs.items()}
    rows = _rows(metrics)
    create_table_artifact(
        rows,
        key="embeddings-evaluation",
        description=f"Evaluation of word vectors. [Report]({url_of(file, run_id)})",
    )
    return {
        "metrics": metrics,
        "rows": rows,
        "report": str(file),
        "evaluations": [str(output.folder / EVALUATION) for output in evaluated],
        "left_out": left_out,
    }


def page_name(names: Sequence[str], inputs: Sequence[runs.InputDataset]) -> str:
    """The file name of the page about sets, and about the dataset whose coverage it shows."""
    dataset = f"-on-{inputs[0].name}" if inputs else ""
    name = f"vectors-{'-'.join(names)}{dataset}".replace("/", "_")
    if len(name.encode()) > LONGEST_NAME:
        name = f"vectors-{digest_of([*names, dataset])[:8]}"
    return f"{name}.html"


def _evaluate(
    spec: str, tests: list[Path], splits: list[Path], queries: Queries, lower_case: bool
) -> Output:
    """The evaluation of a set; language models look up words in the case of their training."""
    if is_bilm(spec):
        return evaluate_bilm_stage(find_bilm(spec), tests, splits, queries, lower_case)
    evaluated = evaluate_vectors_stage(resolve(spec), tests, splits, queries, lower_case)
    warn_if_casing_differs(spec, evaluated.facts["history"], "lower_case", lower_case)
    return evaluated


def _rows(metrics: dict[str, dict[str, float]]) -> list[dict[str, str]]:
    """One row per metric, one column per set."""
    names = dict.fromkeys(name for values in metrics.values() for name in values)
    return [
        {"": metric_title(name)}
        | {s: f"{values[name]:.3f}" if name in values else "–" for s, values in metrics.items()}
        for name in names
    ]


def metric_title(metric: str) -> str:
    """What a metric measures, in words, by its MLflow name."""
    part, _, test = metric.partition("/")
    name, _, field = test.rpartition(".")
    if (part, field) not in TITLES or not name:
        name, field = test, ""
    if part == "coverage":
        band = name if name == "once" else f"{name.removesuffix(' times')} times"
        name = "all words" if name == "all" else f"words that occur {band}"
    if part == "analogies":
        name = name.replace("-", " ")
    return TITLES[part, field].format(name)


def _log(
    outputs: dict[str, Output], inputs: list[runs.InputDataset], lower_case: bool, page: Path
) -> str:
    """Log one MLflow run per set, below a parent run that has the page, and return its id."""
    parent = runs.parent_run_of(EMBEDDINGS)
    for name, output in outputs.items():
        manifest, facts = read_manifest(output.folder), output.facts
        config = {
            "dataset": inputs[0].name if inputs else None,
            "lower_case": lower_case,
            "words": facts["words"],
            "vectors": vector_parameters(manifest, facts["history"]),
        }
        tags = {"vectors.digest": source_digest(manifest)}
        run = runs.VariantRun(name, output.folder.name, config, tags, inputs)
        run_id = runs.start_variant_run(parent, run)
        runs.log_scores(run_id, facts["metrics"])
        runs.log_artifacts(run_id, [output.folder / EVALUATION])
        runs.finish(run_id, "FINISHED")
    runs.log_artifacts(parent, [page])
    runs.finish(parent, "FINISHED")
    return parent


def announce(result: dict[str, Any]) -> None:
    """Print the metrics and the path of the report."""
    if result["left_out"]:
        names = ", ".join(result["left_out"])
        show(f"\nSkipped tests whose files are missing: {names}. Use --fetch to download them.")
    columns = [
        Column(title, justify="right" if title else "left")
        for title in next(iter(result["rows"]), {})  # a small set may have no metrics
    ]
    rows = [list(row.values()) for row in result["rows"]]
    show(table(columns, rows), f"Report     {result['report']}")


command = flow_command(evaluate_embeddings, announce)
