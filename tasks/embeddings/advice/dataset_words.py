"""The words of a dataset's questions, and where they are in them."""

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tasks.text.split_texts import form_counts, read_texts
from tasks.text.vocabulary import is_known, word_of

NEARBY = 10  # tokens on each side of an answer

Words = frozenset[str]


@dataclass(frozen=True)
class MissingWords:
    """The distinct words of a question without a vector in the main set."""

    in_question: Words = frozenset()
    in_answer: Words = frozenset()
    nearby: Words = frozenset()  # up to `NEARBY` tokens before and after the answer

    @property
    def all(self) -> Words:
        """The words at any of these places."""
        return self.in_question | self.in_answer | self.nearby


@dataclass(frozen=True)
class DatasetWords:
    """The words of a dataset, as they are looked up in the main set."""

    counts: Counter[str]  # occurrences in contexts and questions
    contexts: Counter[str]  # the number of contexts that contain the word
    answers: Counter[str]  # occurrences in the training answers
    asked: Counter[str]  # occurrences in the questions
    questions: list[MissingWords]


def read_dataset_words(
    splits: Sequence[Path], main: Container[str], lower_case: bool
) -> DatasetWords:
    """The words of ingested splits; `main` has the words of the main set."""
    counts: Counter[str] = Counter()
    word: dict[str, str] = {}  # of each form; shared, as a token of its own takes more memory
    for form, count in form_counts(splits).items():
        word[form] = word_of(form, main, lower_case)
        counts[word[form]] += count
    known = {word for word in counts if is_known(word, main, lower_case=False)}
    words = DatasetWords(counts, Counter(), Counter(), Counter(), [])
    for split in splits:
        contexts = [
            [word[form] for form in forms] for _, forms in read_texts(split / "contexts.parquet")
        ]
        for context in contexts:
            words.contexts.update(set(context))
        for question, context_id, start, end in _questions(split):
            answer = contexts[context_id][start : end + 1] if start >= 0 else []
            around = contexts[context_id][max(start - NEARBY, 0) : end + 1 + NEARBY]
            words.answers.update(answer)
            asked = [word[form] for form in question]
            words.asked.update(asked)
            missing = Words(around if answer else []) - known
            words.questions.append(
                MissingWords(Words(asked) - known, missing & Words(answer), missing - Words(answer))
            )
    return words


def _questions(split: Path) -> Iterator[tuple[list[str], int, int, int]]:
    """Yield each question's tokens, and the context and the first and last token of its answer."""
    columns = ("context_id", "span_start", "span_end")
    table: Any = pq.read_table(split / "questions.parquet", columns=list(columns))
    places = (table[name].to_pylist() for name in columns)
    tokens = (forms for _, forms in read_texts(split / "questions.parquet"))
    yield from zip(tokens, *places, strict=True)
