"""What a command loads before it does anything."""

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
        ("tasks.worker", {"prefect", "mlflow", "scipy", "matplotlib", "gensim", "numba"}),
    ],
)
def test_what_takes_seconds_to_import_is_imported_where_it_is_used(
    module: str, slow: set[str]
) -> None:
    command = [sys.executable, "-c", LOADED.format(module)]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    assert slow & set(json.loads(done.stdout)) == set()
