"""The packages: what they may import, how large they may be, and their picture."""

import ast
import runpy
import tomllib
from pathlib import Path
from typing import Any

import grimp
import pytest

from infra.settings import CHECKOUT

PACKAGES = ("flows", "tasks", "models", "infra", "benchmarks")
MAX_FILES = 15
"""Python files of a folder, `__init__.py` not counted."""
MAX_NAME_LENGTH = 50


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """The modules that each one imports, inside functions and for type checking too."""
    graph = grimp.build_graph(PACKAGES[0], *PACKAGES[1:], cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def cycles(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The part of a graph that remains after repeatedly removing nodes without imports."""
    rest = {name: set(imported) for name, imported in graph.items()}
    while True:
        leaves = {name for name, imported in rest.items() if not imported}
        if not leaves:
            return rest
        rest = {name: imported - leaves for name, imported in rest.items() if name not in leaves}


def test_cycles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str]()}
    assert cycles(graph) == {"a": {"b"}, "b": {"c"}, "c": {"b"}}


def test_modules_have_no_import_cycle(imports: dict[str, set[str]]) -> None:
    assert cycles(imports) == {}


def test_packages_have_no_import_cycle(imports: dict[str, set[str]]) -> None:
    folders = {name.rpartition(".")[0] for name in imports} - {""}

    def package(name: str) -> str:
        return name if name in folders else name.rpartition(".")[0]

    graph: dict[str, set[str]] = {package(name): set() for name in imports}
    for name, imported in imports.items():
        graph[package(name)] |= {package(other) for other in imported} - {package(name)}
    assert cycles(graph) == {}


def test_no_folder_has_too_many_files() -> None:
    counts: dict[str, int] = {}
    for root in PACKAGES:
        for file in (CHECKOUT / root).rglob("*.py"):
            folder = file.parent.relative_to(CHECKOUT).as_posix()
            counts[folder] = counts.get(folder, 0) + (file.name != "__init__.py")
    assert {folder: count for folder, count in counts.items() if count > MAX_FILES} == {}


def test_package_files_hold_a_docstring_only() -> None:
    for root in PACKAGES:
        for file in (CHECKOUT / root).rglob("__init__.py"):
            lines = file.read_text(encoding="utf-8").splitlines()
            docstring = len(lines) == 1 and lines[0].startswith('"""') and lines[0].endswith('"""')
            assert docstring or file.parent.name == "flows", file


def test_tests_mirror_the_packages() -> None:
    """tests/<package>/test_<module>.py; what tests no single module is elsewhere."""
    tests = CHECKOUT / "tests"
    stray = [
        file.relative_to(tests).as_posix()
        for root in ("flows", "tasks", "models", "infra")
        for file in (tests / root).rglob("test_*.py")
        if not _module_of(file.relative_to(tests)).exists()
    ]
    assert stray == []


def _module_of(test: Path) -> Path:
    name = test.name.removeprefix("test_")
    return CHECKOUT / test.with_name("__main__.py" if name == "main.py" else name)


def test_helpers_are_not_imported_from_tests() -> None:
    for file in (CHECKOUT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                in_tests = node.module.startswith("tests.")
                assert not (in_tests and ".test_" in node.module), f"{file}: {node.module}"


def test_test_names_can_be_scanned() -> None:
    names = [
        node.name
        for file in (CHECKOUT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert [name for name in names if len(name) > MAX_NAME_LENGTH] == []


def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    linter: dict[str, Any] = settings["tool"]["importlinter"]
    return [contract for contract in linter["contracts"] if contract["type"] == "layers"]


def test_contracts_list_every_package(imports: dict[str, set[str]]) -> None:
    listed = {"flows", "tasks", "models", "infra"}
    for contract in contracts():
        for container in contract.get("containers", []):
            assert contract["exhaustive"], container
            for layer in contract["layers"]:
                listed |= {
                    f"{container}.{name.strip()}" for name in layer.replace(":", "|").split("|")
                }
    packages = {name.rpartition(".")[0] for name in imports} - {"", "benchmarks"}
    assert {name for name in packages if not name.startswith("benchmarks")} <= listed


def test_picture_and_list_of_files_are_current() -> None:
    """`python docs/architecture.py` makes them again."""
    program = runpy.run_path(str(CHECKOUT / "docs" / "architecture.py"))
    assert program["drawing"]() == program["DRAWING"].read_text(encoding="utf-8")
    page = program["PAGE"].read_text(encoding="utf-8")
    assert program["with_files"](page) == page
