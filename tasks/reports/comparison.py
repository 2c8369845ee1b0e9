"""Compares variants over seeds, datasets and vectors: a table, a plot, and significant gains."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from infra.artifacts.manifest import facts_of
from models.arrays import FloatArray
from tasks.evaluation.bootstrap import Gain, paired_gain
from tasks.reports.html import TEMPLATES, Template
from tasks.reports.line_charts import scale, ticks

TEMPLATE = Template(TEMPLATES / "comparison.html.j2")
FURTHER_METRICS = {
    "EM at threshold": "dev/em_at_threshold",
    "F1 at threshold": "dev/f1_at_threshold",
    "AvNA at threshold": "dev/avna_at_threshold",
    "questions within": "dev/questions_within",
    "EM within": "dev/em_within",
    "F1 within": "dev/f1_within",
    "AvNA within": "dev/avna_within",
    "questions outside GloVe": "dev/questions_outside_glove",
    "EM outside GloVe": "dev/em_outside_glove",
    "F1 outside GloVe": "dev/f1_outside_glove",
}
"""Optional columns and their metrics. A run has them if a no-answer threshold was chosen on
validation, if some dev contexts exceed max_context_tokens, or if some dev questions or their
answers have words that GloVe lacks."""
COUNTS = ("questions within", "questions outside GloVe")
ROW_HEIGHT, SIDE, WIDTH, TOP = 48, 20, 760, 12


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
class SeedStats:
    """A value over the seeds: its mean, and with several seeds its standard deviation."""

    mean: float
    sd: float | None
    values: list[float]


@dataclass(frozen=True)
class Row:
    """The results of a cell. `gain` is the F1 gain (points) over the first cell of its dataset."""

    cell: Cell
    em: SeedStats
    f1: SeedStats
    nll: SeedStats
    avna: SeedStats
    further: dict[str, SeedStats]  # the columns of FURTHER_METRICS that all its runs have
    examples_per_second: float
    minutes: float
    gain: Gain | None


def compare(
    out: Path,
    cells: Sequence[Cell],
    trained: Sequence[Sequence[Path]],
    reports: Sequence[Sequence[Path]],
    seeds: Sequence[int],
    pages: Mapping[str, str],
    template: Template = TEMPLATE,
) -> dict[str, Any]:
    """Write comparison.html and comparison.json about cells, each trained with every seed.

    `trained` are the folders of the stage `train`, `reports` those of `error-report`: one list per
    cell, one folder per seed. `pages` has the URLs of other reports by title. A cell is
    compared with the first cell of the same dataset, question by question, by the mean F1 over the
    seeds.
    """
    first: dict[str, FloatArray] = {}
    rows = [
        _row(cell, folders, report_folders, first)
        for cell, folders, report_folders in zip(cells, trained, reports, strict=True)
    ]
    document = {"seeds": seeds, "rows": [asdict(row) for row in rows]}
    (out / "comparison.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    view = {
        **{"rows": rows, "seeds": seeds, "datasets": list(first), "plot": _plot(rows)},
        "further": further_columns(rows),
        "pages": pages,
    }
    (out / "comparison.html").write_text(template.render(view), encoding="utf-8")
    return {"rows": table(rows), "markdown": markdown(rows)}


def _row(
    cell: Cell, trained: Sequence[Path], reports: Sequence[Path], first: dict[str, FloatArray]
) -> Row:
    scores = [_scores(folder, report) for folder, report in zip(trained, reports, strict=True)]
    question_f1 = _question_f1(trained)
    gain = None
    if cell.dataset in first:
        gain = paired_gain(first[cell.dataset], question_f1)
    first.setdefault(cell.dataset, question_f1)

    def stats(metric: str) -> SeedStats:
        return _seed_stats([run_scores[metric] for run_scores in scores])

    return Row(
        cell,
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
    )


def _scores(trained: Path, report: Path) -> dict[str, float]:
    facts = facts_of(trained)
    scores: dict[str, float] = facts["scores"] | facts_of(report)["scores"]
    if scores.get("dev/questions_within") == facts["questions"]:  # equal to the full scores
        return {name: value for name, value in scores.items() if not name.endswith("_within")}
    return scores


def _question_f1(trained: Sequence[Path]) -> FloatArray:
    """(n,) each question's F1 in points, averaged over the seeds."""
    columns = [
        pq.read_table(folder / "predictions.parquet", columns=["f1"])["f1"].to_numpy()
        for folder in trained
    ]
    return 100 * np.array(columns, dtype=np.float64).mean(axis=0)  # type: ignore[no-any-return]


def _seed_stats(values: Sequence[float]) -> SeedStats:
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return SeedStats(float(np.mean(values)), sd, list(values))


def _plot(rows: Sequence[Row]) -> dict[str, Any]:
    """F1 of every seed, and mean ± sd of every cell, in drawing coordinates."""
    values = [value for row in rows for value in row.f1.values]
    bottom = TOP + ROW_HEIGHT * len(rows)
    x_ticks = ticks(values, 6)
    x_of = scale(x_ticks[0], x_ticks[-1], SIDE, WIDTH - SIDE)
    lines = [
        {
            "name": row.cell.name,
            "y": TOP + ROW_HEIGHT * (i + 0.7),  # below its name, which may be long
            "dots": [(x_of(value), value) for value in row.f1.values],
            "mean": x_of(row.f1.mean),
            "bar": (x_of(row.f1.mean - (row.f1.sd or 0)), x_of(row.f1.mean + (row.f1.sd or 0))),
        }
        for i, row in enumerate(rows)
    ]
    return {
        "lines": lines,
        "ticks": [(x_of(tick), f"{tick:g}") for tick in x_ticks],
        "left": SIDE,
        "bottom": bottom,
        "size": (WIDTH, bottom + 44),
    }


def table(rows: Sequence[Row]) -> list[dict[str, str]]:
    """The rows with formatted values, for use in other tables."""
    columns = further_columns(rows)
    return [
        {
            **asdict(row.cell),
            "seeds": str(len(row.f1.values)),
            "EM": _format(row.em, 2),
            "F1": _format(row.f1, 2),
            "NLL": _format(row.nll, 3),
            "AvNA": _format(row.avna, 2),
            **{name: _format(row.further.get(name), places) for name, places in columns.items()},
            "F1 gain, 95 %": format_gain(row.gain),
            "examples/s": f"{row.examples_per_second:.0f}",
            "minutes": f"{row.minutes:.1f}",
        }
        for row in rows
    ]


def further_columns(rows: Sequence[Row]) -> dict[str, int]:
    """The columns of `FURTHER_METRICS` that any row has, each with its number of decimal places."""
    columns = [column for column in FURTHER_METRICS if any(column in row.further for row in rows)]
    return {column: 0 if column in COUNTS else 2 for column in columns}


def markdown(rows: Sequence[Row]) -> str:
    """The table in Markdown."""
    cells = table(rows)
    lines = [list(cells[0]), ["---"] * len(cells[0]), *(list(row.values()) for row in cells)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def format_gain(gain: Gain | None) -> str:
    """A gain with its confidence interval, starred if significant; "reference" for None."""
    if gain is None:
        return "reference"
    return (
        f"{gain.mean:+.2f} ({gain.low:+.2f} to {gain.high:+.2f}){' *' if gain.is_certain else ''}"
    )


def _format(stats: SeedStats | None, places: int) -> str:
    if stats is None:
        return "–"
    spread = f" ± {stats.sd:.{places}f}" if stats.sd is not None and places else ""
    return f"{stats.mean:,.{places}f}{spread}"
