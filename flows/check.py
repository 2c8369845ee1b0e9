"""Flow `check`: read a dataset as training would, and report on it without training."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from prefect import flow
from rich.table import Column, Table
from rich.text import Text

from flows.commands.flow_command import flow_command, groups_of
from flows.commands.terminal import show, table
from flows.common.command_line import with_options
from flows.common.data import (
    Splits,
    find_files,
    ingest_dataset,
    recommended_training,
    suited_changes,
)
from flows.common.display_names import names_of_vectors
from flows.common.failures import report_user_errors
from flows.common.parameters import DataParameters, VectorParameters
from flows.common.presets import configure
from flows.common.publish import publish_page
from flows.common.training import changes_in_words
from flows.common.vectors import prepare_vectors
from infra.errors import UserError
from tasks.data.answer_errors import ERROR_DESCRIPTIONS
from tasks.embeddings.formats.source import NO_VECTORS
from tasks.reports.answer_samples import AnswerInSentence
from tasks.reports.data_report import CheckedFiles, CheckedVectors
from tasks.stages import check_stage, ingest_stage, select_vectors_stage
from tasks.text.build_vocabulary import VocabularyConfig


@flow(name="check", description=__doc__)
@report_user_errors
def check(
    data: DataParameters = DataParameters(), vectors: VectorParameters = VectorParameters()
) -> dict[str, Any]:
    """Check all files of a dataset, and return the findings and the path of the report."""
    files = find_files(data)
    checked, splits = _ingest_all(files.all, data)
    training = configure("baseline", recommended_training(data)).training
    findings = check_stage(files.name, checked, _select_vectors(vectors, checked, splits), training)
    report = publish_page(findings.folder / "report.html", f"check-{files.name}.html")
    changes = suited_changes(splits, {}) if splits else {}
    return {
        **findings.facts,
        "training": changes_in_words(splits, changes) if splits and changes else "",
        "report": str(report),
    }


def _select_vectors(
    vectors: VectorParameters, checked: CheckedFiles, splits: Splits | None
) -> CheckedVectors | None:
    """The vectors of the files' words; None without any."""
    if vectors.source == NO_VECTORS or not checked.ingested:
        return None
    vocabulary = VocabularyConfig()
    selected = select_vectors_stage(
        prepare_vectors(vectors, vocabulary.lower_case, splits),
        list(checked.ingested.values()),
        vocabulary.lower_case,
        vocabulary.pretrained_words,
    )
    (name,) = names_of_vectors([vectors])
    return CheckedVectors(name, selected.folder)


def _ingest_all(files: list[Path], data: DataParameters) -> tuple[CheckedFiles, Splits | None]:
    """Ingest and split the files as training does, and collect what it would refuse; without splits
    if it would."""
    ingested: dict[str, Path] = {}
    problems: list[str] = []
    for file in dict.fromkeys(files):
        name = file.name if file.name not in ingested else str(file)
        try:
            ingested[name] = ingest_stage(file, data.repair, data.max_rejected, data.columns).folder
        except UserError as error:
            problems.append(str(error))
            with suppress(UserError):  # a file with too many invalid questions has statistics, too
                ingested[name] = ingest_stage(file, data.repair, columns=data.columns).folder
    splits = None
    if not problems:
        try:
            splits = ingest_dataset(data)
        except UserError as error:
            problems.append(str(error))
    return CheckedFiles(ingested, problems), splits


def announce(summary: dict[str, Any]) -> None:
    """Print the findings; the exit status is 1 if the data can't be trained on."""
    misfit = summary["misfit"]
    show(
        *(f"{'Read' * (not n):11}{text}" for n, text in enumerate(summary["read_as"])),
        _counts(summary),
        *([f"Training   {summary['training']}"] if summary["training"] else []),
        *([_samples(summary["samples"])] if summary["samples"] else []),
        *(f"{'Vectors' * (not n):11}{text}" for n, text in enumerate(summary["covered"])),
        *(Text.assemble(("Too long", "yellow"), f"   {text}") for text in summary["too_long"]),
        *([Text.assemble(("Warning", "yellow"), f"    {misfit}")] if misfit else []),
        *(
            Text.assemble(("Problem", "red"), f"    {with_options(problem, groups_of(check))}")
            for problem in summary["problems"]
        ),
        f"Report     {summary['report']}",
    )
    sys.exit(bool(summary["problems"]))


def _counts(summary: dict[str, Any]) -> Table:
    totals = summary["totals"]
    rows = [
        *(
            (key, f"{totals[key]:,}")
            for key in ("questions", "impossible", "exact", "widened", "repaired", "dropped")
        ),
        ("invalid answers", f"{totals['invalid_answers']:,}"),
        *((f"  {ERROR_DESCRIPTIONS[kind]}", f"{n:,}") for kind, n in summary["faults"].items()),
        ("best possible EM / F1", f"{totals['oracle_em']:.2f} / {totals['oracle_f1']:.2f}"),
    ]
    return table(("", Column("count", justify="right")), rows, title="Data check")


def _samples(samples: list[AnswerInSentence]) -> Table:
    """Random answers, marked in their sentences."""
    rows = [
        (question, Text.assemble(before, (f"[{answer}]", "bold"), after))
        for question, before, answer, after in samples
    ]
    title = "Random answers: are they where they should be?"
    return table(("question", "answer in its sentence"), rows, title=title)


command = flow_command(check, announce, positional="data")
