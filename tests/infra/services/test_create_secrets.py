"""The secrets of a cluster: random, closed to other users, kept, and consistent."""

import configparser
import json
import re
from pathlib import Path

import pytest

from infra.errors import UserError
from infra.services.create_secrets import create_secrets


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


def test_secrets_are_random_and_closed_to_others(tmp_path: Path) -> None:
    assert create_secrets(tmp_path / "a") and create_secrets(tmp_path / "b")
    one, other = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] == other[name]] == []
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "a").iterdir()} == {0o444}


def test_secrets_that_belong_together_match(tmp_path: Path) -> None:
    create_secrets(tmp_path)
    files = contents(tmp_path)
    users = configparser.ConfigParser()
    users.read_string(files["mlflow_users.ini"])
    addresses = [
        users["mlflow"]["database_uri"],
        files["prefect_database"],
        files["mlflow_database"],
    ]
    passwords = {re.findall(r":(\w+)@postgresql:5432/", address)[0] for address in addresses}
    assert passwords == {files["postgresql_password"]}
    (identity,) = json.loads(files["s3_users.json"])["identities"]
    assert identity["credentials"] == [
        {"accessKey": files["s3_key"], "secretKey": files["s3_secret"]}
    ]
    assert users["mlflow"]["default_permission"] == "READ"


def test_existing_secrets_are_kept(tmp_path: Path) -> None:
    create_secrets(tmp_path)
    before = contents(tmp_path)
    assert create_secrets(tmp_path) == []
    assert contents(tmp_path) == before
    (tmp_path / "s3_key").unlink()
    with pytest.raises(UserError, match="lacks s3_key, which must match"):
        create_secrets(tmp_path)


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file: File exists. Choose a folder"):
        create_secrets(tmp_path / "file")
