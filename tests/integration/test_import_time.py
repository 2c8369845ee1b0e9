"""Which packages a command imports before it does anything."""

import json
import subprocess
import sys

import pytest

from infra.settings import CHECKOUT

LOADED = "import json, sys; import {}; print(json.dumps([name for name in sys.modules]))"


@pytest.mark.parametrize(
    ("module", "slow"),
    [
        ("flows.retrain", {"torch", "mlflow", "scipy", "matplotlib", "pandas", "gensim", "numba"}),
        ("tasks.training.worker", {"prefect", "mlflow", "scipy", "matplotlib", "gensim", "numba"}),
    ],
)
def test_slow_packages_are_imported_lazily(module: str, slow: set[str]) -> None:
    command = [sys.executable, "-c", LOADED.format(module)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert slow & set(json.loads(done.stdout)) == set()
