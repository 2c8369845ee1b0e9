"""Names of datasets from their paths and URLs."""

import pytest

from tasks.datasets.names import dataset_name


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("squad-v1.1", "squad-v1.1"),
        ("folder/my-squad-v1.1/", "my-squad-v1.1"),
        ("~/a b (1).JSON.gz", "a-b-1"),
        ("x/2026*.json", "2026"),
        ("x/*.json", "data"),
        ("s3://bucket/tickets/?region=eu-west-1", "tickets"),
        ("/", "data"),
    ],
)
def test_dataset_name_is_derived_from_its_path(place: str, name: str) -> None:
    assert dataset_name(place) == name
