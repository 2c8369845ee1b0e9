import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.evaluate import Gold
from tasks.reports.examples import marked_segments


@pytest.mark.parametrize(
    ("golds", "predicted", "segments"),
    [
        ([], (-1, -1), [("abcdef", False, False)]),
        ([Gold("ab", 0)], (-1, -1), [("ab", True, False), ("cdef", False, False)]),
        (
            [Gold("bcd", 1)],
            (2, 5),
            [
                ("a", False, False),
                ("b", True, False),
                ("cd", True, True),
                ("e", False, True),
                ("f", False, False),
            ],
        ),
        (
            [Gold("bcd", 1), Gold("c", 2)],
            (-1, -1),
            [("a", False, False), ("bcd", True, False), ("ef", False, False)],
        ),
        (
            [Gold("elsewhere", 1), Gold("f", -1)],
            (5, 6),
            [("abcde", False, False), ("f", False, True)],
        ),
    ],
)
def test_segments_match_worked_examples(
    golds: list[Gold], predicted: tuple[int, int], segments: list[tuple[str, bool, bool]]
) -> None:
    assert marked_segments("abcdef", golds, predicted) == segments


@given(st.text(max_size=30), st.data())
def test_segments_join_to_the_context(context: str, data: st.DataObject) -> None:
    def span() -> tuple[int, int]:
        start = data.draw(st.integers(0, len(context)))
        return start, data.draw(st.integers(start, len(context)))

    golds = [Gold(context[start:end], start) for start, end in (span(), span())]
    segments = marked_segments(context, golds, span())
    assert "".join(text for text, _, _ in segments) == context


def test_each_predicted_span_has_its_own_flag() -> None:
    assert marked_segments("abcd", [Gold("a", 0)], (0, 2), (1, 3)) == [
        ("a", True, True, False),
        ("b", False, True, True),
        ("c", False, False, True),
        ("d", False, False, False),
    ]


def test_long_unmarked_text_is_shortened() -> None:
    context = "x" * 50_000 + "answer" + "y" * 50_000
    segments = marked_segments(context, [Gold("answer", 50_000)], (-1, -1))
    assert [gold for _, gold, _ in segments] == [False, True, False]
    assert segments[1][0] == "answer"
    assert segments[0][0].endswith("xxx")
    assert sum(len(text) for text, _, _ in segments) < 3_000
