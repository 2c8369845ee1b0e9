"""The rows of tables that compare trainings: each has one or more seeds."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from benchmarks.trainings.trained import Trained


@dataclass(frozen=True)
class Row:
    """Trainings that differ only in their seeds, in ascending order."""

    trainings: list[Trained]
    settings: str  # in which it differs from other rows of its variant; may be empty

    @property
    def variant(self) -> str:
        """The name of its variant."""
        return self.trainings[0].variant.name

    @property
    def epochs(self) -> int:
        """The number of epochs of its budget."""
        return self.trainings[0].epochs

    @property
    def title(self) -> str:
        """Variant, settings and epochs."""
        return ", ".join(filter(None, (self.variant, self.settings, f"{self.epochs} epochs")))


def rows_of(trainings: Sequence[Trained]) -> list[Row]:
    """The rows of a table, in the order of their first trainings. A row's trainings differ only in
    their seeds; the program ends if two have the same one."""
    groups: dict[str, list[Trained]] = {}
    for trained in trainings:
        groups.setdefault(trained.key, []).append(trained)
    rows = [Row(sorted(group, key=lambda t: t.seed), "") for group in groups.values()]
    rows = [replace(row, settings=_settings_of(row, rows)) for row in rows]
    titles = Counter(row.title for row in rows)
    rows = [_with_data(row) if titles[row.title] > 1 else row for row in rows]
    for row in rows:
        for first, second in pairwise(row.trainings):
            if first.seed == second.seed:
                sys.exit(
                    f"Two trainings are {row.title}, seed {first.seed}. Give one of them only."
                )
    return rows


def _settings_of(row: Row, rows: Sequence[Row]) -> str:
    """The settings in which a row differs from other rows of its variant."""
    all_settings = [r.trainings[0].settings for r in rows if r.variant == row.variant]
    own = row.trainings[0].settings
    differing = [name for name in own if len({other[name] for other in all_settings}) > 1]
    return ", ".join(f"{name} {own[name]}" for name in differing)


def _with_data(row: Row) -> Row:
    data = f"data {row.trainings[0].data[:6]}"
    return replace(row, settings=", ".join(filter(None, (row.settings, data))))
