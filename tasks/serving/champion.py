"""Follows the champion: one process asks MLflow and fetches versions, which the others load."""

import json
import logging
import os
import threading
from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from prometheus_client.multiprocess import mark_process_dead

from infra.atomic_files import write_atomically
from infra.errors import UserError, first_line
from tasks.serving.metrics import FOLDER, FOLLOWS
from tasks.serving.served_model import ServedModel
from tasks.tracking import registry
from tasks.tracking.client import reading_client, require_server

POLL_SECONDS = 2.0  # between two looks at the alias, and at the version to answer with
RETRY_SECONDS = 5.0  # after an error

logger = logging.getLogger(__name__)


class ChampionFolder:
    """A folder with the versions that replicas answer with."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self._version: registry.RegisteredVersion | None = None
        self._fetched = deque[TemporaryDirectory[str]]()

    def update(self) -> None:
        """Fetch the champion if it is a new one, load it and ask it a question. If it answers,
        replicas take it over.

        Raises:
            UserError: MLflow does not respond or refuses access, there is no champion, or its files
                are gone or can't be loaded.
        """
        require_server(again=True)
        version = None
        if reading_client() is not None:
            version = registry.find(self.name, registry.CHAMPION)
        if version is None:
            dataset = self.name.removeprefix("bidaf-")
            raise UserError(
                f"{dataset} has no champion yet. Train one: bidaflow retrain --data.dataset "
                f"{dataset}"
            )
        if version == self._version:
            return
        fetched = TemporaryDirectory(dir=self.folder)
        model = Path(fetched.name, "model")
        registry.download(version.model_id, model)
        ServedModel.load(model, version.name, version.version)
        publish(self.folder, model, version.name, version.version)
        self._version = version
        self._fetched.append(fetched)
        if len(self._fetched) > 2:  # a replica may still load the previous one
            self._fetched.popleft().cleanup()

    def follow(self, stop: threading.Event) -> None:
        """Update until `stop`. After an error the last version goes on, and the log and the metrics
        say so. Also removes the gauges of killed replicas from the metrics."""
        problem = ""
        while not stop.wait(RETRY_SECONDS if problem else POLL_SECONDS):
            before, problem = problem, ""
            try:
                self.update()
            except Exception as error:  # also those of MLflow and its database
                problem = first_line(error)
                if problem != before:
                    logger.warning("Can't follow the champion: %s.", problem)
            FOLLOWS.set(not problem)
            for file in Path(os.environ[FOLDER]).glob("gauge_live*.db"):
                pid = int(file.stem.rpartition("_")[2])
                if not psutil.pid_exists(pid):
                    mark_process_dead(pid)  # type: ignore[no-untyped-call]


def publish(folder: Path, model: Path, name: str, version: str) -> None:
    """Make replicas answer with a model folder."""
    write_atomically(folder / "current.json", json.dumps([str(model), name, version]))


def published(folder: Path) -> tuple[Path, str, str]:
    """The model folder to answer with, its name and version."""
    model, name, version = json.loads((folder / "current.json").read_text(encoding="utf-8"))
    return Path(model), name, version
