"""The shell commands of the documents."""

import re

BLOCK = re.compile(r"^( *)```sh\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
CLUSTER_WALK = re.compile(
    r"^## A cluster of containers$.*?(?=^## Security$)", re.MULTILINE | re.DOTALL
)
"""The sections of docs/cluster.md whose commands tests/integration/test_cluster_walk.py checks."""


def shell_lines(text: str) -> list[str]:
    """The commands in the shell blocks of a page, each on one line."""
    blocks = (block.replace("\\\n", "") for _, block in BLOCK.findall(text))
    lines = (line.strip() for block in blocks for line in block.splitlines())
    return [line for line in lines if line]
