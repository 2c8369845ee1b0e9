"""Which packages a command imports before it does anything."""

import json
import subprocess
import sys

import pytest

from infra.settings import CHECKOUT

SLOW = {"torch", "mlflow", "scipy", "matplotlib", "pandas", "gensim", "numba"}
LOADED = "import json, sys; import {}; print(json.dumps([name for name in sys.modules]))"
LOADED_BY_HELP = """
import atexit, json, sys
from flows.__main__ import main

atexit.register(lambda: print(json.dumps(list(sys.modules)), file=sys.stderr))
sys.argv = ["bidaflow", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    ("module", "slow"),
    [
        ("flows.retrain", {"ray", "grimp", *SLOW}),
        ("tasks.training.worker", {"prefect", "mlflow", "scipy", "matplotlib", "gensim", "numba"}),
        ("flows.commands.ask", {"prefect", "ray", "torch", "mlflow", "scipy", "pandas"}),
    ],
)
def test_slow_packages_are_imported_lazily(module: str, slow: set[str]) -> None:
    command = [sys.executable, "-c", LOADED.format(module)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert slow & set(json.loads(done.stdout)) == set()


@pytest.mark.parametrize("words", [["--help"], ["embeddings", "--help"]])
def test_list_of_commands_imports_none_of_them(words: list[str]) -> None:
    command = [sys.executable, "-c", LOADED_BY_HELP, *words]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: bidaflow ")
    loaded = set(json.loads(done.stderr))
    assert loaded & {"prefect", "torch", "mlflow", "ray", "numpy", "pyarrow"} == set()
