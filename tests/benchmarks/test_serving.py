"""The benchmark of the server, run as a program for a few seconds."""

import json
from pathlib import Path

import pytest

from infra.storage.root_format import require_format
from tasks.tracking import registry
from tests.factories.cli import run_benchmark
from tests.factories.logged_models import CONTEXT, MODEL_INPUT
from tests.factories.serving import NAME, register_untrained
from tests.factories.splits import ingest

pytestmark = [pytest.mark.heavy, pytest.mark.full, pytest.mark.timeout(1800)]


def test_serving(mlflow_tables: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    monkeypatch.setenv("BIDAFLOW_ROOT", str(root))
    require_format()
    register_untrained(root / "model")
    registry.set_champion(registry.find_version(f"{NAME}/2"))
    split = ingest(tmp_path / "split", (CONTEXT, [row["question"] for row in MODEL_INPUT]))
    out = tmp_path / "serving.json"
    run_benchmark(root, "serving", "made", split, "--seconds", "3", "--out", out)
    result = json.loads(out.read_text(encoding="utf-8"))
    for count in (1, 8, 64):
        for server in ("bidaflow serve", "mlflow"):
            measured = result[f"{count}_clients"][server]
            assert 0 < measured["median_ms"] <= measured["99_percent_ms"]
            assert measured["memory_mib"] > 50
        own = result[f"{count}_clients"]["bidaflow serve"]
        assert own["model_ms_per_batch"] > 0
        assert 1 <= own["questions_per_batch"] <= count
    disturbed = result["changes_and_kills"]
    assert disturbed["wrong answers"] == 0
    assert min(disturbed[f"answers of version {version}"] for version in "12") > 0
    aliases = [registry.find(NAME, a) for a in (registry.CHAMPION, registry.PREVIOUS)]
    assert [version and version.version for version in aliases] == ["2", "1"]
