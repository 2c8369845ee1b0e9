"""Parsing and checks of HTML pages."""

import re
from html import unescape
from html.parser import HTMLParser

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """The elements of a page with their attributes; asserts that they are nested correctly."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def visible_text(page: str) -> str:
    """The text that a reader sees, with white space normalised."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def assert_self_contained(page: str) -> None:
    """Assert that a page is nested correctly, and that it runs, loads and links to nothing."""
    for tag, attributes in Page(page).elements:
        assert tag not in {"script", "link", "img", "iframe", "object"}
        assert not {"src", "srcset", "href"} & attributes.keys()
    assert "url(" not in page
    assert "@import" not in page
