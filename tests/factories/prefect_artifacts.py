"""The artifacts of flow runs on the Prefect server."""

from typing import Any

from prefect.client.orchestration import get_client


def artifacts(key: str) -> list[Any]:
    with get_client(sync_client=True) as client:
        filters = {"artifacts": {"key": {"any_": [key]}}}  # unfiltered, only 200 are returned
        results: list[Any] = client.request("POST", "/artifacts/filter", json=filters).json()
    return results
