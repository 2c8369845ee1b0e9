"""The words of a dataset's questions, by their place."""

from collections import Counter
from pathlib import Path

from tasks.data.ingest import ingest_articles
from tasks.data.schema import Article
from tasks.embeddings.advice.dataset_words import MissingWords, read_dataset_words

CONTEXT = "Ada Lovelace wrote notes. " + "The end is far away from here, says Babbage. " * 2
ANSWERED = {"text": "Ada Lovelace", "answer_start": 0}
MAIN = {
    *(
        "ada",
        "wrote",
        "notes",
        "the",
        "end",
        "is",
        "far",
        "away",
        "from",
        "here",
        "says",
        "who",
        "in",
    ),
    *(".", ",", "?"),
}


def test_missing_words_are_found_by_place(tmp_path: Path) -> None:
    questions = [
        {"id": "a", "question": "Who wrote in Xanadu?", "answers": [ANSWERED]},
        {"id": "b", "question": "Who says nothing?", "answers": [], "is_impossible": True},
    ]
    paragraph = {"context": CONTEXT, "qas": questions}
    article = Article.model_validate({"title": "Ada", "paragraphs": [paragraph]})
    ingest_articles([article], tmp_path)
    words = read_dataset_words([tmp_path], MAIN, lower_case=True)
    assert words.counts["wrote"] == 2, "once in the context, once in a question"
    assert (words.contexts["end"], words.contexts["who"]) == (1, 0)
    assert words.answers == Counter(["ada", "lovelace"])
    assert words.asked == Counter(
        ["who", "wrote", "in", "xanadu", "?", "who", "says", "nothing", "?"]
    )
    assert words.questions == [
        MissingWords(in_question=frozenset({"xanadu"}), in_answer=frozenset({"lovelace"})),
        MissingWords(in_question=frozenset({"nothing"})),
    ], "Babbage is more than ten tokens after the answer"
    assert words.questions[0].all == {"xanadu", "lovelace"}


def test_words_near_an_answer_are_found(tmp_path: Path) -> None:
    context = "Here Babbage says who wrote notes."
    question = {"id": "a", "question": "Who?", "answers": [{"text": "wrote", "answer_start": 22}]}
    paragraph = {"context": context, "qas": [question]}
    article = Article.model_validate({"title": "Ada", "paragraphs": [paragraph]})
    ingest_articles([article], tmp_path)
    (question_words,) = read_dataset_words([tmp_path], MAIN, lower_case=True).questions
    assert question_words == MissingWords(nearby=frozenset({"babbage"}))
