"""MLflow's tables, which a process migrates once instead of for each of its databases."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import pytest


@contextmanager
def migrated_once() -> Iterator[None]:
    """Copy the tables of the first new SQLite database to all later ones.

    MLflow's migrations take more than a second for each database.
    """
    from mlflow.store.db import utils
    from mlflow.store.model_registry import sqlalchemy_store

    migrate, lock = utils._initialize_tables, Lock()
    template = sqlite3.connect(":memory:", check_same_thread=False)
    copied = False

    def initialize(engine: Any) -> None:
        nonlocal copied
        if engine.dialect.name != "sqlite" or not utils._is_empty_database(engine):
            return migrate(engine)
        with lock, engine.connect() as connection:
            database = connection.connection.driver_connection
            if copied:
                template.backup(database)
            else:
                migrate(engine)
                database.backup(template)
                copied = True

    with pytest.MonkeyPatch.context() as patch:
        for module in (utils, sqlalchemy_store):  # the second has imported it by name
            patch.setattr(module, "_initialize_tables", initialize)
        yield
    template.close()
