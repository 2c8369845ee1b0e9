"""Control characters in users' texts, which a terminal or a browser would act on."""

_REPLACED = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(127, 160)), "�")


def without_control_characters(text: str) -> str:
    """The text with each control character, except tabs and line ends, replaced by U+FFFD."""
    return text.translate(_REPLACED)
