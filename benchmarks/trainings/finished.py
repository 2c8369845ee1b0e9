"""Outputs of finished flows under the root: stages, and the trainings of a comparison."""

from collections.abc import Iterator
from pathlib import Path

from infra.artifacts.manifest import MANIFEST, read_manifest, stages_folder


def finished_folders(stage: str) -> list[Path]:
    """The finished folders of a stage, the newest last."""
    folders = [file.parent for file in (stages_folder() / stage).glob(f"[!.]*/{MANIFEST}")]
    return sorted(folders, key=lambda folder: str(read_manifest(folder)["finished"]))


def complete_comparisons() -> list[Path]:
    """The folders of comparisons none of whose trainings failed, the newest last."""
    return [
        folder
        for folder in finished_folders("compare")
        if not read_manifest(folder)["inputs"]["missing"]
    ]


def input_folders(folder: Path, field: str) -> list[Path]:
    """The folders of the stages that a stage was made from, by the name of the input."""
    origins = read_manifest(folder)["made_from"]
    return [
        stages_folder() / item["stage"] / item["key"] for item in origins if item["input"] == field
    ]


def cells(comparison: Path) -> Iterator[tuple[dict[str, str], list[Path]]]:
    """Yield each cell of a comparison with the folders of its trainings, one per seed."""
    inputs = read_manifest(comparison)["inputs"]
    folders = [f for f in input_folders(comparison, "cells") if f.parent.name == "train"]
    for trainings in inputs["cells"]:
        count = len(trainings["trained"])
        yield trainings["cell"], folders[:count]
        folders = folders[count:]
