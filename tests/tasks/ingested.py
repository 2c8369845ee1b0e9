"""Small ingested splits for tests."""

from pathlib import Path

from tasks.ingestion import ingest_articles
from tasks.squad import Article, Paragraph, Question


def ingest(folder: Path, *paragraphs: tuple[str, list[str]]) -> Path:
    """An ingested split of contexts, each with its (unanswerable) questions."""
    folder.mkdir()
    made = [
        Paragraph(
            context=context,
            qas=[
                Question(id=f"{number}-{i}", question=question, answers=[], is_impossible=True)
                for i, question in enumerate(questions)
            ],
        )
        for number, (context, questions) in enumerate(paragraphs)
    ]
    ingest_articles([Article(title="made", paragraphs=made)], folder)
    return folder


def write_lines(file: Path, *rows: str) -> str:
    """A text file of vectors; its path as a source."""
    file.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return str(file)
