"""Who may ask Prefect's server."""

from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient

from infra.services import prefect_server


def test_foreign_hosts_are_refused_prefect_is_not(
    root: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Automations ask the app within the process, by a name of their own."""
    served: list[Any] = []
    monkeypatch.setattr(uvicorn, "run", lambda app, **_: served.append(app))
    prefect_server.main(0)
    (app,) = served
    for host, status in (("127.0.0.1", 200), ("foreign.example", 400)):
        assert TestClient(app, f"http://{host}").get("/api/health").status_code == status
    assert TestClient(app.app, "http://prefect-in-memory").get("/api/health").status_code == 200
