import pytest

from tasks.slices import bucket_names, length_bucket, question_word


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("What year was it?", "what"),
        ("In which year?", "which"),
        ("To WHOM did he speak when he came?", "who"),
        ("Whose?", "who"),
        ("How much is it?", "how many"),
        ("How does it work?", "how"),
        ("Name the showhow.", "other"),
        ("", "other"),
    ],
)
def test_question_words(question: str, word: str) -> None:
    assert question_word(question) == word


def test_buckets() -> None:
    assert bucket_names([1, 2, 5]) == ["1", "2", "3–5", "over 5"]
    assert bucket_names([100, 150]) == ["up to 100", "101–150", "over 150"]
    assert [length_bucket(n, [1, 2, 5]) for n in (0, 1, 2, 3, 5, 6)] == [0, 0, 1, 2, 2, 3]
