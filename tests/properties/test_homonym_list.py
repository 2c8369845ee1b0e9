"""The list of the homonym test: its size, and that each sentence has its word once."""

from pathlib import Path

from tasks.embeddings import evaluation
from tasks.text.tokenizer import tokenize

LIST = Path(evaluation.__path__[0]) / "homonyms.txt"


def test_words_have_two_senses_of_six_sentences() -> None:
    senses: dict[str, dict[str, list[str]]] = {}
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            word, sense = line.strip("[]").split(": ")
            sentences = senses.setdefault(word, {}).setdefault(sense, [])
        elif line and not line.startswith("#"):
            forms = [line[start:end].lower() for start, end in tokenize(line)]
            assert forms.count(word) == 1, line
            sentences.append(line)
    assert len(senses) >= 40
    for word, by_sense in senses.items():
        assert [len(set(sentences)) for sentences in by_sense.values()] == [6, 6], word
