"""Random answers in their sentences."""

from pathlib import Path

from tasks.data.ingest import ingest_articles
from tasks.data.schema import Answer, Article, Paragraph, Question
from tasks.reports.answer_samples import sample_answers


def ask(id: str, *answers: Answer) -> Question:
    return Question(id=id, question=f"{id}?", answers=list(answers), is_impossible=not answers)


def test_answers_are_shown_in_their_sentence(tmp_path: Path) -> None:
    context = "It is old. The \x1b gold bar lies there. Nobody knows."
    answer = Answer(text="gold bar", answer_start=context.index("gold"))
    paragraph = Paragraph(context=context, qas=[ask("a", answer), ask("b")])
    ingest_articles([Article(paragraphs=[paragraph])], tmp_path)
    (sample,) = sample_answers([tmp_path], 10)
    assert sample == ("a?", "The \ufffd ", "gold bar", " lies there.")


def test_ten_are_drawn_by_their_ids(tmp_path: Path) -> None:
    answer = Answer(text="gold", answer_start=4)
    qas = [ask(str(number), answer) for number in range(50)]
    ingest_articles([Article(paragraphs=[Paragraph(context="The gold bar", qas=qas)])], tmp_path)
    drawn = [sample.question for sample in sample_answers([tmp_path], 10)]
    assert len(set(drawn)) == 10 and drawn != sorted(drawn)
    assert drawn == [sample.question for sample in sample_answers([tmp_path], 10)]
