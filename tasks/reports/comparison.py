"""Compares variants over seeds, datasets and vectors: a table, a plot, and significant gains."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from markupsafe import Markup

from infra.artifacts.manifest import facts_of
from models.arrays import FloatArray
from tasks.evaluation.evaluate import read_groups
from tasks.evaluation.significance import CorrectedGain, corrected_gains
from tasks.reports.charts import COLOURS, Axes, Tooltips, inline_svg
from tasks.reports.html import digits, write_page

# Optional columns and their metrics. A run has them if a no-answer threshold was chosen on
# validation, if some dev contexts exceed max_context_tokens, or if some dev questions or their
# answers have words that GloVe lacks.
FURTHER_METRICS = {
    "EM at threshold": "dev/em_at_threshold",
    "F1 at threshold": "dev/f1_at_threshold",
    "AvNA at threshold": "dev/avna_at_threshold",
    "no-answer AUC": "dev/no_answer_auc",
    "questions within": "dev/questions_within",
    "EM within": "dev/em_within",
    "F1 within": "dev/f1_within",
    "AvNA within": "dev/avna_within",
    "questions outside GloVe": "dev/questions_outside_glove",
    "EM outside GloVe": "dev/em_outside_glove",
    "F1 outside GloVe": "dev/f1_outside_glove",
}
CHART_WIDTH, ROW_HEIGHT, AXIS_HEIGHT = 400, 54, 44


@dataclass(frozen=True)
class Cell:
    """A variant, trained on one dataset with one set of vectors."""

    dataset: str
    vectors: str
    variant: str

    @property
    def name(self) -> str:
        """Variant, vectors and dataset in one name."""
        return f"{self.variant} · {self.vectors} · {self.dataset}"


@dataclass(frozen=True)
class CellTrainings:
    """A cell and its trainings: a folder of `train` and one of `error-report` for each seed.

    Seeds without results are left out.
    """

    cell: Cell
    trained: Sequence[Path]
    reports: Sequence[Path]


@dataclass(frozen=True)
class Failure:
    """A training that failed."""

    cell: Cell
    seed: int
    error: str


@dataclass(frozen=True)
class SeedStats:
    """A value over the seeds: its mean, and with several seeds its standard deviation."""

    mean: float
    sd: float | None
    values: list[float]


@dataclass(frozen=True)
class Row:
    """The results of a cell.

    `gain` is the F1 gain (points) over the first cell of its dataset, which is the reference. None
    for the reference, and for all if the reference has no results.
    """

    cell: Cell
    is_reference: bool
    em: SeedStats
    f1: SeedStats
    nll: SeedStats
    avna: SeedStats
    further: dict[str, SeedStats]  # the columns of FURTHER_METRICS that all its runs have
    examples_per_second: float
    minutes: float
    gain: CorrectedGain | None
    gain_at_threshold: CorrectedGain | None  # if both have no-answer thresholds


def compare(
    out: Path,
    cells: Sequence[CellTrainings],
    seeds: Sequence[int],
    failed: Sequence[Failure] = (),
) -> dict[str, Any]:
    """Write comparison.html and comparison.json about cells, each trained with one or more seeds.

    A cell is compared with the first cell of the same dataset, question by question, from all seeds
    of both. Cells without results have no row; the page lists the `failed` trainings.
    """
    references = {trainings.cell.dataset: trainings for trainings in reversed(cells)}
    rows = _rows(cells, references)
    text = json.dumps({"seeds": seeds, "rows": [asdict(row) for row in rows]}, indent=1)
    (out / "comparison.json").write_text(f"{text}\n", encoding="utf-8")
    write_page(
        out / "comparison.html",
        "comparison.html.j2",
        rows=rows,
        seeds=seeds,
        datasets=list(dict.fromkeys(trainings.cell.dataset for trainings in cells)),
        f1_chart=_f1_chart(rows),
        further=_further_columns(rows),
        failed=failed,
    )
    table = _table(rows)
    return {"rows": table, "markdown": _markdown(table)}


def _rows(cells: Sequence[CellTrainings], references: Mapping[str, CellTrainings]) -> list[Row]:
    """The rows of the cells with results; `references` has the first cell of each dataset."""
    trained = [own for own in cells if own.trained]
    with_thresholds = [own for own in trained if _have_thresholds(own)]
    gains = _gains(trained, references.values(), _question_f1)
    at_threshold = _gains(with_thresholds, references.values(), _question_f1_at_threshold)
    return [
        _row(
            own,
            own == references[own.cell.dataset],
            gains.get(own.cell),
            at_threshold.get(own.cell),
        )
        for own in trained
    ]


def _gains(
    cells: Sequence[CellTrainings],
    references: Iterable[CellTrainings],
    question_f1: Callable[[Sequence[Path]], FloatArray],
) -> dict[Cell, CorrectedGain]:
    """The F1 gains of cells over the reference of their dataset, if it is among them.

    p-values are corrected over the cells of a dataset.
    """
    gains: dict[Cell, CorrectedGain] = {}
    for reference in references:
        if reference in cells:
            before = question_f1(reference.trained)
            gains |= corrected_gains(
                {
                    own.cell: (question_f1(own.trained), before)
                    for own in cells
                    if own != reference and own.cell.dataset == reference.cell.dataset
                },
                read_groups(reference.trained[0] / "predictions.parquet"),
            )
    return gains


def _row(
    trainings: CellTrainings,
    is_reference: bool,
    gain: CorrectedGain | None,
    gain_at_threshold: CorrectedGain | None,
) -> Row:
    """The results of a cell, with its gains over the reference."""
    scores = [
        _scores(trained, report)
        for trained, report in zip(trainings.trained, trainings.reports, strict=True)
    ]

    def stats(metric: str) -> SeedStats:
        values = [run_scores[metric] for run_scores in scores]
        sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return SeedStats(float(np.mean(values)), sd, values)

    return Row(
        trainings.cell,
        is_reference,
        em=stats("dev/em"),
        f1=stats("dev/f1"),
        nll=stats("dev/nll"),
        avna=stats("dev/avna"),
        further={
            column: stats(metric)
            for column, metric in FURTHER_METRICS.items()
            if all(metric in run_scores for run_scores in scores)
        },
        examples_per_second=stats("examples_per_second").mean,
        minutes=stats("seconds").mean / 60,
        gain=gain,
        gain_at_threshold=gain_at_threshold,
    )


def _scores(trained: Path, report: Path) -> dict[str, float]:
    facts = facts_of(trained)
    scores: dict[str, float] = facts["scores"] | facts_of(report)["scores"]
    if scores.get("dev/questions_within") == facts["questions"]:  # equal to the full scores
        return {name: value for name, value in scores.items() if not name.endswith("_within")}
    return scores


def _question_f1(trained: Sequence[Path]) -> FloatArray:
    """(seeds, n) each question's F1 in points."""
    columns = [
        pq.read_table(folder / "predictions.parquet", columns=["f1"])["f1"].to_numpy()
        for folder in trained
    ]
    return 100 * np.array(columns, dtype=np.float64)


def _have_thresholds(cell: CellTrainings) -> bool:
    return all(facts_of(folder).get("threshold") is not None for folder in cell.trained)


def _question_f1_at_threshold(trained: Sequence[Path]) -> FloatArray:
    """(seeds, n) each question's F1 in points, at the no-answer threshold of its training."""
    columns = ["best_f1", "no_answer_em", "best_score", "no_answer_score"]
    rows = []
    for folder in trained:
        table: Any = pq.read_table(folder / "predictions.parquet", columns=columns)
        f1, no_answer, span_score, no_answer_score = (table[name].to_numpy() for name in columns)
        reached = no_answer_score - span_score >= facts_of(folder)["threshold"]
        rows.append(np.where(reached, no_answer, f1))
    return 100 * np.array(rows, dtype=np.float64)


def _f1_chart(rows: Sequence[Row]) -> Markup:
    """F1 of every seed, and mean ± sd of every cell, below the cell's name, which may be long."""

    def draw(axes: Axes) -> Tooltips:
        axes.set(xlabel="F1, %", yticks=[], ylim=(len(rows) - 0.5, -0.75))
        axes.grid(axis="x", clip_on=False)
        for y, row in enumerate(rows):
            mean, sd, values = row.f1.mean, row.f1.sd or 0, row.f1.values
            axes.text(
                x=0,
                y=y - 0.2,
                s=fill(row.cell.name, width=50),
                verticalalignment="bottom",
                transform=axes.get_yaxis_transform(),
                in_layout=False,
            )
            accent = {"color": COLOURS["accent"], "clip_on": False}
            axes.plot([mean - sd, mean + sd], [y, y], linewidth=2, **accent)
            axes.plot(
                values,
                [y] * len(values),
                "o",
                gid=f"row{y}",
                color=COLOURS["soft"],
                markerfacecolor=COLOURS["card"],
                markersize=7,
                clip_on=False,
            )
            axes.plot(mean, y, "|", markersize=18, markeredgewidth=3, **accent)
        return {
            f"row{y}": [f"{row.cell.name}: {digits(value, 2)}" for value in row.f1.values]
            for y, row in enumerate(rows)
        }

    return inline_svg(
        "F1",
        "F1 of every seed, and mean and standard deviation of every variant.",
        (CHART_WIDTH, ROW_HEIGHT * len(rows) + AXIS_HEIGHT),
        draw,
    )


def _table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """The rows with formatted values, for use in other tables."""
    columns = _further_columns(rows)
    has_thresholds = any(row.gain_at_threshold for row in rows)
    return [
        {
            **asdict(row.cell),
            "seeds": str(len(row.f1.values)),
            "EM": _format(row.em, 2),
            "F1": _format(row.f1, 2),
            "NLL": _format(row.nll, 3),
            "AvNA": _format(row.avna, 2),
            **{
                name: _format(row.further[name], places) if name in row.further else "–"
                for name, places in columns.items()
            },
            "F1 gain, 95 %": _gain_text(row, row.gain),
            **(
                {"F1 gain at threshold, 95 %": _gain_text(row, row.gain_at_threshold)}
                if has_thresholds
                else {}
            ),
            "examples/s": f"{row.examples_per_second:.0f}",
            "minutes": f"{row.minutes:.1f}",
        }
        for row in rows
    ]


def _further_columns(rows: Sequence[Row]) -> dict[str, int]:
    """The columns of `FURTHER_METRICS` that any row has, each with its number of decimal places."""
    return {
        column: 0 if column.startswith("questions") else 3 if column.endswith("AUC") else 2
        for column in FURTHER_METRICS
        if any(column in row.further for row in rows)
    }


def _markdown(table: Sequence[Mapping[str, str]]) -> str:
    lines = [list(table[0]), ["---"] * len(table[0]), *(list(row.values()) for row in table)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _gain_text(row: Row, gain: CorrectedGain | None) -> str:
    if gain is None:
        return "reference" if row.is_reference else "–"
    return gain.text


def _format(stats: SeedStats, places: int) -> str:
    spread = f" ± {stats.sd:.{places}f}" if stats.sd is not None and places else ""
    return f"{stats.mean:,.{places}f}{spread}"
