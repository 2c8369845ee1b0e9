"""What a message of another library is shortened to."""

import pytest

from infra.errors import first_line


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("\nno such file.\nTraceback:\n  a", "no such file"),
        ("ACCESS_DENIED (Request ID: A1B2). More", "ACCESS_DENIED"),
        ("", ""),
    ],
)
def test_first_line_of_an_error(message: str, line: str) -> None:
    assert first_line(OSError(message)) == line
