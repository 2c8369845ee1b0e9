"""Questions with one name, number, year or month swapped for another one of the context."""

import pytest

from tasks.data.swaps import possible_swaps
from tasks.data.text_spans import Text

CONTEXT = (
    "In April 1921, Ada Moss opened the observatory in Lima. Her telescope weighed 340 tons. "
    "A storm in June 1948 destroyed the roof, and workers in Quito rebuilt it. Eve Hill wrote "
    "about 512 visitors, who included AM."
)


def swapped(question: str, answer: str, context: str = CONTEXT, title: str = "") -> set[str]:
    answers = [(answer, context.index(answer))]
    return {swap.question for swap in possible_swaps(Text(question), Text(context), answers, title)}


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Who opened the observatory in 1921?", "Ada Moss", {"1948"}),
        ("Who opened the observatory in April?", "Ada Moss", {"June"}),
        ("Which telescope weighed 340 tons?", "Her telescope", {"512"}),
        ("Who opened the observatory in Lima?", "Ada Moss", {"Quito"}),
    ],
)
def test_swaps_for_the_same_shape(question: str, answer: str, expected: set[str]) -> None:
    old = {"1948": "1921", "June": "April", "512": "340", "Quito": "Lima"}
    assert swapped(question, answer) == {question.replace(old[new], new) for new in expected}


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        pytest.param("Who opened the roof in 1921?", "Ada Moss", id="the roof is in the sentence"),
        pytest.param("What destroyed the roof in 1921?", "A storm", id="the year is elsewhere"),
        pytest.param("Was the observatory built in 1921 or 1922?", "1921", id="or"),
        pytest.param("Who came in 1921?", "Ada Moss", id="little else is said"),
        pytest.param("Who opened the observatory in 1922?", "Ada Moss", id="not in the context"),
        pytest.param("What did Ada Moss open in the south?", "observatory", id="other roles"),
    ],
)
def test_leaves_doubtful_questions_alone(question: str, answer: str) -> None:
    assert not swapped(question, answer)


def test_never_swaps_in_the_topic_or_an_alias() -> None:
    context = "A reporter was in Lima. Cats sat in Liman. Rats sat in Quito. Hens sat in Cusco."
    question = "What kind of reporter was once in Lima?"
    assert swapped(question, "reporter", context) == {
        question.replace("Lima", city) for city in ("Quito", "Cusco")
    }
    assert swapped(question, "reporter", context, "History_of_Quito") == {
        question.replace("Lima", "Cusco")
    }


def test_parts_of_a_longer_name_are_the_same_name() -> None:
    context = "A letter was by Moss. Then Ada Moss was ill. Yes, Ada was old. Why, Hill was late."
    question = "Which letter was written by Moss?"
    assert swapped(question, "letter", context) == {question.replace("Moss", "Hill")}
