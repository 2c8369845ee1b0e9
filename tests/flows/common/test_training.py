"""Where trainings start from."""

import pytest
from prefect import flow

from flows.common.training import first_found

pytestmark = pytest.mark.usefixtures("prefect_server", "root")


def test_retry_starts_from_the_same_model() -> None:
    """The alias `champion` moves to the model that the first attempt has trained."""
    found: list[str] = []

    @flow(name="starting", retries=1)
    def starting(champions: list[str]) -> None:
        found.append(first_found("models:/made@champion", champions.pop(0)))
        if champions:
            raise RuntimeError("interrupted after its promotion")

    starting(["version 4", "version 5"])
    starting(["version 5"])
    assert found == ["version 4", "version 4", "version 5"]
