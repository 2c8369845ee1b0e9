"""The results of a run: its trained variants with their scores and reports, which are written below
the root and shown in Prefect and MLflow."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import get_run_logger
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.runtime import deployment, flow_run

from flows.common.command_line import command_of_run
from flows.common.data import Splits
from flows.common.promote import PromotionResult, emit_decision, log_decision
from infra.artifacts.manifest import content_digest, digest_of, git_commit
from infra.artifacts.shared_folder import pull, shared_folder
from infra.artifacts.stage import Output
from infra.atomic_files import write_atomically
from infra.settings import settings
from tasks.datasets.paths import not_used
from tasks.evaluation.promotion_rule import markdown
from tasks.reports.run_report import (
    REPORT,
    RunRecord,
    VariantScores,
    as_artifact,
    read_records,
    run_folder,
    write_run,
)
from tasks.tracking import client, runs

COLUMNS = {
    "dev/em": ("EM", ".2f"),
    "dev/f1": ("F1", ".2f"),
    "dev/nll": ("NLL", ".3f"),
    "dev/avna": ("AvNA", ".2f"),
    # Only if a no-answer threshold was chosen on validation:
    "dev/f1_at_threshold": ("F1 at threshold", ".2f"),
    "dev/avna_at_threshold": ("AvNA at threshold", ".2f"),
    "examples_per_second": ("examples/s", ".0f"),
    "seconds": ("training s", ".0f"),
}


@dataclass(frozen=True)
class TrainedVariants:
    """The trained variants of a dataset, with their reports."""

    splits: Splits
    variants: list[Output]
    report: Output
    error_reports: list[Output]  # one for each of `variants`

    @property
    def new(self) -> list[Output]:
        """The variants that this run trained, as opposed to cache hits."""
        return [output for output in self.variants if not output.cached]

    @property
    def pages(self) -> str:
        """Digest of the keys of the stages that wrote the pages."""
        return digest_of([page.folder.name for page in (self.report, *self.error_reports)])

    @property
    def unchanged(self) -> str:
        """What a run says that has trained nothing, with the files that it has not used."""
        sentence = "Nothing to do: data, parameters and code are unchanged."
        return f"{sentence} {not_used(self.splits.unused_files)}".rstrip()

    def rows(self) -> list[dict[str, str]]:
        """One row per variant: its scores on all dev questions, by the metrics that all have."""
        columns = {
            metric: column
            for metric, column in COLUMNS.items()
            if all(metric in output.facts["scores"] for output in self.variants)
        }
        return [
            {
                "variant": output.facts["variant"],
                **{
                    title: format(output.facts["scores"][metric], form)
                    for metric, (title, form) in columns.items()
                },
                "trained": "before" if output.cached else "now",
            }
            for output in self.variants
        ]

    @property
    def best(self) -> Output:
        """The variant with the highest F1 on validation; if there is none, on dev."""
        split = "dev" if self.splits.validation is None else "validation"
        return max(self.variants, key=lambda output: float(output.facts["scores"][f"{split}/f1"]))

    def scores(self) -> list[VariantScores]:
        """Each variant's scores for the record of the run."""
        return [
            VariantScores(
                name=output.facts["variant"],
                em=output.facts["scores"]["dev/em"],
                f1=output.facts["scores"]["dev/f1"],
                trained_now=not output.cached,
                dev_digest=content_digest(self.splits.dev.folder),
                stage=output.folder.name,
                run_url=output.facts["run_url"],
            )
            for output in self.variants
        ]

    def summary(self, report: Path, promotion: PromotionResult | None = None) -> dict[str, Any]:
        """Plain values for the terminal and for the flow run's result."""
        return {
            "dataset": self.splits.name,
            "questions": self.splits.dev.facts["questions"],
            "rows": self.rows(),
            "trained": len(self.new),
            "unchanged": self.unchanged,
            "decision": promotion.sentence if promotion and promotion.decision else None,
            # A promotion leaves a champion.
            "model": None if promotion else self.best.facts["model_uri"],
            "report": str(report),
            "runs": {output.facts["variant"]: output.facts["run_url"] for output in self.variants},
            "seconds": {output.facts["variant"]: output.facts["seconds"] for output in self.new},
        }


def reports_folder() -> Path:
    """The folder of all report pages."""
    return settings().root.resolve() / "reports"


def publish_page(page: Path, name: str) -> Path:
    """Copy a page to `name` below the reports folder, atomically, and return its path there."""
    target = reports_folder() / name
    with shared_folder(target):
        write_atomically(target, page.read_bytes())
    return target


def url_of(page: Path, run_id: str | None) -> str:
    """The URL of a page: that of the artifact of the MLflow run, by the page's name, or that of the
    file, if the run has no such artifact, or no server shows it."""
    if run_id is None or not client.shows_pages():
        return page.as_uri()
    return f"{client.run_url(run_id)}/artifacts/{page.name}"


def folder_of_run() -> str:
    """The name of the current flow run's folder; a retry writes to the same one."""
    return run_folder(flow_run.scheduled_start_time, str(flow_run.name))


def publish(trained: TrainedVariants, promotion: PromotionResult | None = None) -> Path:
    """Publish the report, show the results in Prefect and MLflow, and return the report's path.

    A run that neither trained nor decided anything shows the report of the run that did.
    """
    dataset = trained.splits.name
    folder = reports_folder() / dataset
    if not trained.new and not (promotion and promotion.decision):
        record = earlier_record(trained, folder) or _write_report(trained, promotion, None)
        _show_in_prefect(trained, record.report_url, None)
        runs.finish_flow_run(str(flow_run.id), "FINISHED")  # of an earlier attempt, if any
        return folder / record.folder / REPORT
    run_id = runs.parent_run_of(dataset)
    record = _write_report(trained, promotion, run_id)
    _show_in_prefect(trained, record.report_url, record.mlflow_url)
    _log_outcome(trained, promotion, record, run_id)
    runs.finish(run_id, "FINISHED")
    if promotion:
        emit_decision(promotion, dataset, record.report_url, record.mlflow_url)
    return folder / record.folder / REPORT


def earlier_record(trained: TrainedVariants, folder: Path) -> RunRecord | None:
    """The record of the newest run whose report has the same pages, and is still there."""
    pull(folder)
    same = [record for record in read_records(folder) if record.report == trained.pages]
    return next((old for old in reversed(same) if (folder / old.folder / REPORT).is_file()), None)


def _write_report(
    trained: TrainedVariants, promotion: PromotionResult | None, run_id: str | None
) -> RunRecord:
    """Write the run's pages and its record below the reports folder."""
    decision = promotion.decision if promotion else None
    page = str(flow_run.ui_url or "")
    folder = reports_folder() / trained.splits.name
    record = RunRecord(
        name=str(flow_run.name),
        dataset=trained.splits.name,
        started=flow_run.scheduled_start_time,
        report=trained.pages,
        variants=trained.scores(),
        decision=decision,
        sentence=promotion.sentence if promotion and decision else None,
        commit=git_commit(),
        command=command_of_run(),
        prefect_url=page if page.startswith("http") else None,
        mlflow_url=client.run_url(run_id) if run_id else trained.variants[0].facts["run_url"],
        report_url=url_of(folder / folder_of_run() / REPORT, run_id),
    )
    errors = {
        output.facts["variant"]: output.folder / "errors.html" for output in trained.error_reports
    }
    with shared_folder(folder):
        write_run(folder, record, trained.report.folder / REPORT, errors)
    return record


def _show_in_prefect(trained: TrainedVariants, report: str, parent_url: str | None) -> None:
    questions, dataset = trained.splits.dev.facts["questions"], trained.splits.name
    create_table_artifact(
        trained.rows(),
        key="results",
        description=f"Scores on all {questions} dev questions of {dataset}. [Report]({report})",
    )
    links = {
        "report": (report, "Report of this run", "scores, decision, errors, settings"),
        "mlflow": (parent_url, "This run in MLflow", "all of its variants"),
        **{
            f"mlflow-{output.facts['variant']}": (
                output.facts["run_url"],
                f"MLflow run of {output.facts['variant']}",
                "metrics, settings and model",
            )
            for output in trained.variants
        },
    }
    if deployment.id is not None:  # a terminal shows the path
        get_run_logger().info(f"Report: {report}")
    for key, (url, text, about) in links.items():
        if url is not None:
            # The list of a run's artifacts shows descriptions only.
            description = f"[{text}]({url}): {about}"
            create_link_artifact(url, link_text=text, key=key, description=description)


def _log_outcome(
    trained: TrainedVariants, promotion: PromotionResult | None, record: RunRecord, run_id: str
) -> None:
    """Log to the run's parent in MLflow what people look for: scores, decision and report."""
    best = trained.best
    names = [output.facts["variant"] for output in trained.variants]
    runs.log_scores(run_id, {name: best.facts["scores"][name] for name in ("dev/f1", "dev/em")})
    tags = {"variants": ", ".join(names), "best variant": best.facts["variant"]}
    artifacts = f"{client.run_url(run_id)}/artifacts"
    for page in (reports_folder() / record.dataset / record.folder).glob("*.html"):
        runs.log_text(run_id, page.name, as_artifact(page.read_text("utf-8"), artifacts, page))
    if promotion and promotion.decision:
        tags["decision"] = promotion.sentence
        text = f"{promotion.sentence}\n\n{markdown(promotion.decision)}"
        create_markdown_artifact(text, key="decision", description=promotion.sentence)
        log_decision(run_id, text, promotion.decision)
    runs.tag(run_id, tags)
    link = f"[Report]({record.report_url})"
    for linked in (run_id, *(output.facts["run_id"] for output in trained.new)):
        runs.add_link(linked, link)
