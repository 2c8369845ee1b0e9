"""The documents are current: generated pages, links, and the examples in them."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
import torch

from flows.__main__ import build_app
from flows.common.presets import find_preset
from infra.settings import CHECKOUT
from models.bidaf import BiDAF
from tests.factories.documents import shell_lines

PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *(CHECKOUT / "docs").glob("*.md")]
LINK = re.compile(r"\]\(([^)#:]+)(?:#([^)]*))?\)")
MAX_README_LINES = 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for name, heading in LINK.findall(page.read_text(encoding="utf-8")):
        target = page.parent / name
        assert target.is_file(), name
        if heading:
            assert heading in anchors(target), f"{name}#{heading}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_linked_from_the_readme() -> None:
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if page.name not in readme] == []
    assert len(readme.splitlines()) <= MAX_README_LINES


def test_configuration_page_is_current() -> None:
    program = runpy.run_path(str(CHECKOUT / "docs" / "configuration.py"))
    assert program["PAGE"].read_text(encoding="utf-8") == program["page"]()


def test_documented_commands_have_valid_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that read vectors trained by another command are only run, by test-all."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vectors.txt").touch()
    commands = [
        shlex.split(re.split(r" [|>&]", line)[0], comments=True)
        for page in PAGES
        for line in shell_lines(page.read_text(encoding="utf-8"))
        if line.startswith("bidaflow ") and not re.search(r"\b(?:support|general)\b", line)
    ]
    assert len(commands) > 60
    app = build_app()
    for _, *words in commands:
        app.parse_args(words, exit_on_error=False, print_error=False)


def test_example_of_a_new_variant_makes_a_model(tmp_path: Path) -> None:
    text = (CHECKOUT / "docs" / "variants.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "my_presets.py").write_text(example, encoding="utf-8")
    variant = find_preset(f"{tmp_path}/my_presets.py:wide")
    model = BiDAF(variant.model, torch.zeros(10, 50), characters=20)
    assert model.encoder.layers[0].ahead.hidden_size == variant.model.hidden_size == 128
