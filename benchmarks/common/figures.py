"""Figures as picture files."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from infra.atomic_files import atomic_file


def save(figure: Any, file: Path) -> None:
    """Write a figure as a PNG file, and close it."""
    with atomic_file(file) as stream:
        figure.savefig(stream, format="png", dpi=150)
    plt.close(figure)
