"""Shows the results of a flow run: in Prefect and MLflow, and as reports."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.runtime import flow_run
from pydantic import Field

from flows.common.promote import PromotionResult, log_decision
from flows.common.splits import Splits
from infra.artifacts.stage import Output
from infra.atomic_files import write_atomically
from infra.settings import settings
from tasks.evaluation.evaluate import load_split
from tasks.evaluation.promotion_rule import markdown
from tasks.reports.error_report import page_path
from tasks.reports.examples import matching_rows, named_questions
from tasks.stages import reporting_errors
from tasks.tracking import runs
from tasks.training.train_variant import parent_run_of

ExampleQuestions = Annotated[
    list[Annotated[str, Field(pattern=r"\S")]],
    Field(
        description="Dev questions whose attention the error reports plot, each given by its id or "
        "by words that it contains. Empty: the most confident mistakes. On the command line, use a "
        'JSON list for words with a comma or a quotation mark: ["Who, when?"].'
    ),
]

UNCHANGED = "Nothing to do: data, parameters and code are unchanged."

COLUMNS = {
    "dev/em": ("EM", ".2f"),
    "dev/f1": ("F1", ".2f"),
    "dev/nll": ("NLL", ".3f"),
    "dev/avna": ("AvNA", ".2f"),
    "examples_per_second": ("examples/s", ".0f"),
    "seconds": ("training s", ".0f"),
}


def reports_folder() -> Path:
    """The folder of all report pages; each page shows the newest results of its kind."""
    return settings().root.resolve() / "reports"


def publish_page(page: Path, name: str) -> Path:
    """Copy a page to `name` below the reports folder, atomically, and return its path there."""
    target = reports_folder() / name
    write_atomically(target, page.read_bytes())
    return target


def match_examples(splits: Sequence[Splits], examples: Sequence[str]) -> list[list[str]]:
    """For each dataset, the examples that match its dev questions.

    Raises:
        UserError: an example matches no dev question of any dataset.
    """
    folders = [dataset.dev.folder for dataset in splits]
    matches: dict[Path, list[str]] = {folder: [] for folder in folders}
    for folder in matches if examples else ():
        split = load_split(folder)
        matches[folder] = [name for name in examples if matching_rows(split, name)]
    for name in examples:
        if not any(name in names for names in matches.values()):
            named_questions(load_split(folders[0]), [name])
    return [matches[folder] for folder in folders]


def error_report(splits: Splits, trained: Output, examples: Sequence[str]) -> Output:
    """The error report on a variant; its MLflow run gets a copy."""
    return reporting_errors(splits.name, trained.folder, splits.dev.folder, examples)


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

    def rows(self) -> list[dict[str, str]]:
        """One row per variant: its scores on all dev questions."""
        return [
            {
                "variant": output.facts["variant"],
                **{
                    title: format(output.facts["scores"][metric], form)
                    for metric, (title, form) in COLUMNS.items()
                },
                "trained": "before" if output.cached else "now",
            }
            for output in self.variants
        ]

    def summary(self, promotion: PromotionResult | None = None) -> dict[str, Any]:
        """Plain values for the terminal and for the flow run's result."""
        return {
            "dataset": self.splits.name,
            "questions": self.splits.dev.facts["questions"],
            "rows": self.rows(),
            "trained": len(self.new),
            "decision": promotion.sentence if promotion and promotion.decision else None,
            "report": str(reports_folder() / f"{self.splits.name}.html"),
            "runs": {output.facts["variant"]: output.facts["run_url"] for output in self.variants},
            "seconds": {output.facts["variant"]: output.facts["seconds"] for output in self.new},
        }


def publish_report(dataset: str, report: Output, errors: Sequence[Output], below: str = "") -> Path:
    """Publish a report and the error reports that it links to, and return the report's path."""
    for output in errors:
        page = page_path(dataset, output.facts["variant"])
        publish_page(output.folder / "errors.html", f"{below}{page}")
    return publish_page(report.folder / "report.html", f"{below}{dataset}.html")


def publish(trained: TrainedVariants, promotion: PromotionResult | None = None) -> None:
    """Publish the report, and show the results in Prefect and MLflow."""
    report = publish_report(trained.splits.name, trained.report, trained.error_reports)
    decision = promotion.decision if promotion else None
    create_table_artifact(
        trained.rows(),
        key="results",
        description=f"Scores on all {trained.splits.dev.facts['questions']} dev questions of "
        f"{trained.splits.name}. Report: {report}",
    )
    for output in trained.variants:
        variant = output.facts["variant"]
        create_link_artifact(
            output.facts["run_url"], link_text=f"MLflow run of {variant}", key=f"mlflow-{variant}"
        )
    uri = settings().tracking_uri
    if not trained.new and not decision:
        create_markdown_artifact(f"{UNCHANGED} Latest report: {report}", key="nothing-to-do")
        runs.finish_flow_run(uri, str(flow_run.id), "FINISHED")  # of an earlier attempt, if any
        return
    run_id = parent_run_of(trained.splits.name)
    runs.log_artifacts(uri, run_id, [report])
    if promotion and decision:
        text = f"{promotion.sentence}.\n\n{markdown(decision)}"
        create_markdown_artifact(text, key="decision")
        log_decision(uri, run_id, text, decision)
    runs.finish(uri, run_id, "FINISHED")
