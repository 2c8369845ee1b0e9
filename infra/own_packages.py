"""Finds a foreign package that Python would import instead of one of ours.

Imports nothing of ours, so that it can be run by its path: `infra` itself may be a foreign package.
"""

from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]
PACKAGES = ("flows", "tasks", "models", "infra")  # the project's own, in the folder


def foreign_package() -> str | None:
    """A sentence about a package elsewhere with the name of one of ours, and what to do; None if
    Python finds ours.

    With an editable install, some modules of ours would still be imported, but those of the foreign
    package would be in the keys of stages.
    """
    for name in PACKAGES:
        found = _place(name)
        if found is not None and found.resolve() != FOLDER / name:
            return (
                f"Python finds {found} instead of bidaflow's own package {name}. Remove "
                f"{found.parent} from PYTHONPATH or, if it is the current folder, start in another "
                "one."
            )
    return None


def _place(name: str) -> Path | None:
    """Where Python finds a package: its folder, or the file of a module."""
    spec = find_spec(name)
    if spec is None:
        return None
    # A folder without __init__.py is a package, too, and has no file.
    places = [spec.origin] if spec.origin else [*(spec.submodule_search_locations or ())]
    file = Path(places[0])
    return file.parent if file.name == "__init__.py" else file
