"""Small word-vector files."""

from pathlib import Path


def write_lines(file: Path, *rows: str) -> str:
    """Write a text file of word vectors; returns its path as a source."""
    file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return str(file)
