"""The pages of a flow run, and its record, with which later runs are compared.

The record of a run is `<dataset>/<time>-<run>.json`. The folder of that name has its pages:
report.html, and a page of errors for each variant. Garbage collection removes the folder with the
run's models; the record stays.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from html import escape, unescape
from pathlib import Path

import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from infra.artifacts.locks import lock_file, lock_if_free
from infra.artifacts.manifest import MANIFEST, read_manifest, stages_folder
from infra.artifacts.remote import ensure_local
from infra.atomic_files import write_atomically
from infra.run_logger import logger
from tasks.datasets.paths import LONGEST_NAME
from tasks.evaluation.bootstrap import Gain, paired_gain
from tasks.evaluation.evaluate import read_groups
from tasks.evaluation.promotion_rule import Decision
from tasks.reports.html import View, render
from tasks.tracking.runs import flatten

REPORT = "report.html"
# Where a report and an error page show what is known only when the run ends.
PLACE = "<!-- run -->"


def run_folder(started: datetime, name: str) -> str:
    """The name of a run's folder; people may give two runs the same name, or long ones."""
    plain = re.sub(r"[^\w.-]+", "-", name).encode()[:LONGEST_NAME].decode(errors="ignore")
    return f"{started:%Y-%m-%d-%H%M}-{plain}"


class VariantScores(BaseModel, frozen=True):
    """A variant's scores on all dev questions, and where its answers and its MLflow run are."""

    name: str
    em: float  # 0 to 100, as F1
    f1: float
    trained_now: bool
    dev_digest: str
    stage: str  # key of the stage that trained it
    run_url: str


class RunRecord(BaseModel, frozen=True):
    """What is kept of a flow run: its scores, its decision, and how to repeat it."""

    name: str
    dataset: str
    started: datetime
    report: str  # digest of the keys of the stages that wrote the pages
    variants: list[VariantScores]
    decision: Decision | None
    sentence: str | None  # the decision in words
    commit: str | None
    command: str
    prefect_url: str | None
    mlflow_url: str
    report_url: str  # of the report in MLflow, or of its file

    @property
    def folder(self) -> str:
        """The name of the run's folder."""
        return run_folder(self.started, self.name)


def read_records(dataset: Path) -> list[RunRecord]:
    """The records of all runs in a dataset's folder, oldest first, without unreadable ones."""
    return sorted(_readable_records(dataset), key=lambda record: record.started)


def _readable_records(dataset: Path) -> Iterator[RunRecord]:
    for file in dataset.glob("*.json"):
        try:
            yield RunRecord.model_validate_json(file.read_bytes())
        except ValidationError as error:
            logger().warning(
                f"{file}: not a valid record of a run ({error.error_count()} invalid fields). The "
                "run is left out of comparisons; remove the file to silence this warning."
            )


def write_run(dataset: Path, record: RunRecord, report: Path, errors: Mapping[str, Path]) -> Path:
    """Write the pages of a run and its record, and return the report's path.

    Args:
        dataset: the folder of all runs on the dataset.
        record: what the report shows besides the results.
        report: the page of the stage `report`.
        errors: the page of the stage `error-report` of each variant.
    """
    folder = dataset / record.folder
    earlier = [old for old in read_records(dataset) if old.started < record.started]
    before = _compared(record, earlier)
    section = render("run.html.j2", run=record, before=before)
    for variant, page in errors.items():
        write_error_page(page, folder / f"{variant}.html")
    _write_with(report, section, folder / REPORT)
    write_atomically(dataset / f"{record.folder}.json", f"{record.model_dump_json(indent=1)}\n")
    return folder / REPORT


def write_error_page(page: Path, file: Path) -> None:
    """Write a copy of a variant's page of errors, with a link to the report beside it."""
    _write_with(page, f' · <a href="{REPORT}">all variants of this run</a>', file)


def _write_with(page: Path, part: str, file: Path) -> None:
    """Write a copy of a page with a part at its place."""
    write_atomically(file, page.read_text(encoding="utf-8").replace(PLACE, part, 1))


def as_artifact(page: str, folder_url: str, file: Path) -> str:
    """A copy of a page for MLflow, whose links to other pages lead to the artifacts at a URL.

    A <base> element would change the references inside of the page's drawings, too.
    """

    def absolute(link: re.Match[str]) -> str:
        target = unescape(link["target"])
        return f'<a href="{escape(target if "://" in target else f"{folder_url}/{target}")}"'

    page = re.sub(r'<a href="(?P<target>[^"]*)"', absolute, page)
    note = (
        "MLflow opens no links in this page: open them in a new tab, by the menu of the right "
        f"mouse button. The page is also the file {escape(str(file))}."
    )
    return page.replace("<main>", f'<main>\n<p class="note">{note}</p>', 1)


# The comparison with the run before


def _compared(record: RunRecord, earlier: Sequence[RunRecord]) -> View | None:
    """Each variant beside its scores in the newest earlier run that has one of the variants."""
    names = {variant.name for variant in record.variants}
    for before in reversed(earlier):
        known = {variant.name: variant for variant in before.variants}
        if names & known.keys():
            rows = [
                {
                    "name": now.name,
                    "now": now,
                    "before": old,
                    "gain": _gain(old, now),
                    "changes": ", ".join(_changes(old, now)),
                }
                for now in record.variants
                if (old := known.get(now.name))
            ]
            return {"run": before, "rows": rows}
    return None


# What a change of these inputs of a training means to people; their values are digests. Other
# digests follow from them.
DIGESTS = {
    "data.train.ingested": "other training data",
    "data.validation.ingested": "other validation data",
    "data.dev.ingested": "other dev data",
    "data.vectors": "other vectors",
    "data.bilm": "another language model",
    "data.start_from": "another model to start from",
}


def _changes(before: VariantScores, now: VariantScores) -> list[str]:
    """What changed in data, vectors and settings of a variant's training; empty if the earlier
    training has been removed."""
    manifests = [stages_folder() / "train" / scores.stage / MANIFEST for scores in (before, now)]
    if not all(file.is_file() for file in manifests):
        return []
    old, new = (flatten(read_manifest(file.parent)["inputs"]) for file in manifests)
    changed = [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]
    return [
        DIGESTS.get(name) or f"{name.removeprefix('variant.')} {old.get(name)} → {new.get(name)}"
        for name in changed
        if name in DIGESTS or not name.startswith("data.")
    ]


def _gain(before: VariantScores, now: VariantScores) -> Gain | None:
    """The gain in F1 if both answered the same questions and their answers are still there."""
    if before.dev_digest != now.dev_digest:
        return None
    folders = [stages_folder() / "train" / variant.stage for variant in (before, now)]
    with ExitStack() as locks:  # against removal
        for folder in folders:
            # A process that is removing the stage may wait for the reports, which are locked here.
            use = lock_if_free(lock_file(folder, "use"), shared=True, patience=2)
            if not locks.enter_context(use):
                return None
            ensure_local(folder)
        old, new = (folder / "predictions.parquet" for folder in folders)
        if not old.is_file() or not new.is_file():
            return None
        before_f1, f1 = (
            pq.read_table(file, columns=["f1"])["f1"].to_numpy() for file in (old, new)
        )
        return paired_gain(100 * before_f1, 100 * f1, read_groups(new))
