"""A Dockerfile as the list of its instructions, by stage."""

import re
from pathlib import Path
from typing import NamedTuple


class Instruction(NamedTuple):
    """An instruction such as RUN, and what follows it."""

    name: str
    text: str


def read_stages(file: Path) -> list[list[Instruction]]:
    """The instructions of each stage, which begins with FROM; the first list has those before."""
    text = re.sub(r"^#.*\n", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    stages: list[list[Instruction]] = [[]]
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line.strip():
            name, _, rest = line.partition(" ")
            if name == "FROM":
                stages.append([])
            stages[-1].append(Instruction(name, rest))
    return stages


def after_user(stage: list[Instruction]) -> list[Instruction]:
    """The instructions that are run as the user of the stage's USER, not as root."""
    names = [instruction.name for instruction in stage]
    return stage[names.index("USER") + 1 :]
