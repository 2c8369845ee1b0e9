"""Small files of word vectors."""

from pathlib import Path


def write_lines(file: Path, *rows: str) -> str:
    """A text file of vectors; its path as a source."""
    file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return str(file)
