"""Types of command-line arguments."""

import argparse
from pathlib import Path


def existing_file(text: str) -> Path:
    """The path of a file; argparse reports one that does not exist."""
    file = Path(text)
    if not file.is_file():
        raise argparse.ArgumentTypeError(f"{file} is not a file")
    return file
