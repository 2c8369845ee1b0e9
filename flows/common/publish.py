"""Publishes pages under the root, where `bidaflow up` serves them, and shows a run's results in
Prefect and MLflow."""

from pathlib import Path
from urllib.parse import quote

from prefect import get_run_logger
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.runtime import deployment, flow_run

from flows.common.command_line import command_of_run
from flows.common.promote import PromotionResult, emit_decision, log_decision
from flows.common.results import TrainedVariants
from infra.artifacts.locks import exclusive_lock
from infra.artifacts.manifest import git_commit
from infra.artifacts.shared_folder import pull, shared_folder
from infra.atomic_files import write_atomically
from infra.settings import settings
from tasks.evaluation.promotion_rule import markdown
from tasks.reports.run_report import (
    REPORT,
    RunRecord,
    read_records,
    run_folder,
    with_links_to,
    write_index,
    write_run,
)
from tasks.tracking import client, registry, runs


def reports_folder() -> Path:
    """The folder of all report pages."""
    return settings().root.resolve() / "reports"


def publish_page(page: Path, name: str) -> Path:
    """Copy a page to `name` below the reports folder, atomically, and return its path there."""
    target = reports_folder() / name
    with shared_folder(target):
        write_atomically(target, page.read_bytes())
    return target


def url_of(page: Path) -> str:
    """The URL under which `bidaflow up` serves a page or folder below the reports folder."""
    return f"{settings().reports_url}/{quote(page.relative_to(reports_folder()).as_posix())}"


def folder_of_run() -> str:
    """The name of the current flow run's folder; a retry writes to the same one."""
    return run_folder(flow_run.scheduled_start_time, str(flow_run.name))


def update_index() -> None:
    """Rewrite the pages that list all runs, with the current champions.

    One run at a time does so: otherwise, the pages of the one that ends last might lack the other.
    """
    lock = settings().root / "locks" / "reports"
    message = "Waiting for another run to update the list of runs."
    with exclusive_lock(lock, message), shared_folder(reports_folder()):
        champions = {
            model.name.removeprefix("bidaf-"): registry.title(model)
            for model in registry.champions(settings().tracking_uri)
        }
        write_index(reports_folder(), champions)


def publish(trained: TrainedVariants, promotion: PromotionResult | None = None) -> Path:
    """Publish the report, show the results in Prefect and MLflow, and return the report's path.

    A run that neither trained nor decided anything shows the report of the run that did.
    """
    dataset, uri = trained.splits.name, settings().tracking_uri
    folder = reports_folder() / dataset
    if not trained.new and not (promotion and promotion.decision):
        report = earlier_report(trained, folder) or _write_report(trained, promotion, None)
        _show_in_prefect(trained, report, None)
        create_markdown_artifact(
            f"{trained.unchanged} [Latest report]({url_of(report)})",
            key="nothing-to-do",
            description="Why this run trained nothing",
        )
        runs.finish_flow_run(uri, str(flow_run.id), "FINISHED")  # of an earlier attempt, if any
        return report
    run_id = runs.parent_run_of(dataset)
    report = _write_report(trained, promotion, run_id)
    _show_in_prefect(trained, report, client.run_url(uri, run_id))
    _log_outcome(trained, promotion, report, run_id)
    runs.finish(uri, run_id, "FINISHED")
    if promotion:
        emit_decision(promotion, dataset, url_of(report), client.run_url(uri, run_id))
    return report


def earlier_report(trained: TrainedVariants, folder: Path) -> Path | None:
    """The newest published copy of the report with the same pages, if there is one."""
    pull(folder)
    reports = [
        folder / record.folder / REPORT
        for record in read_records(folder)
        if record.report == trained.pages
    ]
    return next((report for report in reversed(reports) if report.is_file()), None)


def _write_report(
    trained: TrainedVariants, promotion: PromotionResult | None, run_id: str | None
) -> Path:
    """Write the run's folder below the reports folder, and return the report's path."""
    decision = promotion.decision if promotion else None
    page = str(flow_run.ui_url or "")
    record = RunRecord(
        name=str(flow_run.name),
        dataset=trained.splits.name,
        started=flow_run.scheduled_start_time,
        report=trained.pages,
        variants=trained.scores(),
        decision=decision,
        sentence=promotion.sentence if promotion and decision else None,
        champion=promotion.champion_title if promotion and decision else None,
        champion_f1=promotion.champion_f1 if promotion and decision else None,
        commit=git_commit(),
        command=command_of_run(),
        prefect_url=page if page.startswith("http") else None,
        mlflow_url=client.run_url(settings().tracking_uri, run_id)
        if run_id
        else trained.variants[0].facts["run_url"],
    )
    errors = {
        output.facts["variant"]: output.folder / "errors.html" for output in trained.error_reports
    }
    folder = reports_folder() / record.dataset
    with shared_folder(folder):
        report = write_run(folder, record, trained.report.folder / REPORT, errors)
    update_index()
    return report


def _show_in_prefect(trained: TrainedVariants, report: Path, parent_url: str | None) -> None:
    questions, dataset = trained.splits.dev.facts["questions"], trained.splits.name
    create_table_artifact(
        trained.rows(),
        key="results",
        description=f"Scores on all {questions} dev questions of {dataset}. "
        f"[Report]({url_of(report)})",
    )
    links = {
        "report": (url_of(report), "Report of this run", "scores, decision, errors, settings"),
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
        get_run_logger().info(f"Report: {url_of(report)}")
    for key, (url, text, about) in links.items():
        if url is not None:
            # The list of a run's artifacts shows descriptions only.
            description = f"[{text}]({url}): {about}"
            create_link_artifact(url, link_text=text, key=key, description=description)


def _log_outcome(
    trained: TrainedVariants, promotion: PromotionResult | None, report: Path, run_id: str
) -> None:
    """Log to the run's parent in MLflow what people look for: scores, decision and report."""
    uri = settings().tracking_uri
    best = trained.best
    names = [output.facts["variant"] for output in trained.variants]
    runs.log_scores(
        uri, run_id, {name: best.facts["scores"][name] for name in ("dev/f1", "dev/em")}
    )
    tags = {"variants": ", ".join(names), "best variant": best.facts["variant"]}
    text = report.read_text(encoding="utf-8")
    runs.log_text(uri, run_id, REPORT, with_links_to(text, url_of(report.parent)))
    if promotion and promotion.decision:
        tags["decision"] = promotion.sentence
        text = f"{promotion.sentence}\n\n{markdown(promotion.decision)}"
        create_markdown_artifact(text, key="decision", description=promotion.sentence)
        log_decision(uri, run_id, text, promotion.decision)
    runs.tag(uri, run_id, tags)
    link = f"[Report]({url_of(report)})"
    for linked in (run_id, *(output.facts["run_id"] for output in trained.new)):
        runs.add_link(uri, linked, link)
