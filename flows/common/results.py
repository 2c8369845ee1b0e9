"""The results of a flow run: trained variants with their scores and reports."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.common.promote import PromotionResult
from flows.common.splits import Splits
from infra.artifacts.manifest import content_digest, digest_of
from infra.artifacts.stage import Output
from tasks.datasets.paths import not_used
from tasks.reports.run_report import VariantScores

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
