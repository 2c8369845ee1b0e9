"""Which runs of the tests may skip some."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.settings import CHECKOUT
from tests.conftest import NO_SKIPS_VARIABLE, ROOTS_VARIABLE, RUN_VARIABLE

TESTS = """
import pytest

def test_data():
    pytest.skip("needs data")

def test_more_data():
    pytest.skip("needs data")

@pytest.mark.gpu
def test_gpu():
    pytest.skip("needs a CUDA device")
"""
REFUSED = f"2 tests skipped, which {NO_SKIPS_VARIABLE} does not allow: needs data"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("variables", "status"),
    [({"CI": "true"}, 0), ({NO_SKIPS_VARIABLE: "1"}, 1)],
    ids=["any CI service", "nothing missing"],
)
def test_skips_fail_a_run_on_request(
    tmp_path: Path, variables: dict[str, str], status: int
) -> None:
    """A run of its own, which neither ends this one's processes nor removes its folders."""
    (tmp_path / "test_skipped.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  gpu\n", encoding="utf-8")
    own = (NO_SKIPS_VARIABLE, ROOTS_VARIABLE, RUN_VARIABLE, "PYTEST_XDIST_WORKER", "CI")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-q", str(tmp_path)],
        cwd=CHECKOUT,
        env={k: v for k, v in os.environ.items() if k not in own} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = {line.strip() for line in done.stdout.splitlines()}
    assert {"2 skipped: needs data", "1 skipped: needs a CUDA device"} <= lines
    assert done.returncode == status
    assert (REFUSED in done.stdout) == status
    assert done.stdout.count("not allow") == status
