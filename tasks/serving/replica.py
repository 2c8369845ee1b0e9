"""One process that answers: its model, and the batches of requests that it answers."""

import asyncio
import json
import logging
import os
import signal
from concurrent.futures import Future
from multiprocessing import parent_process
from pathlib import Path
from queue import Queue
from threading import Thread
from time import sleep
from typing import Any

from infra.atomic_files import write_atomically
from tasks.inference.predictor import AnswerRow
from tasks.serving.metrics import BATCH, MODEL, QUEUE, REPLICAS, count_answers
from tasks.serving.served_model import ModelRequest, ServedModel

LONGEST_QUEUE = 128  # requests that wait
LARGEST_BATCH = 64  # questions; one request may have more
LONGEST_WAIT = 30.0  # seconds until a request is given up
POLL_SECONDS = 2.0  # between two looks at the version to answer with

logger = logging.getLogger(__name__)


def publish(folder: Path, model: Path, name: str, version: str) -> None:
    """Make the replicas of this folder answer with a model folder."""
    write_atomically(folder / "current.json", json.dumps([str(model), name, version]))


def load_published(folder: Path, loaded: ServedModel | None = None) -> ServedModel:
    """The version to answer with; loaded unless it is the loaded one."""
    model, *named = json.loads((folder / "current.json").read_text(encoding="utf-8"))
    if loaded and [loaded.name, loaded.version] == named:
        return loaded
    return ServedModel.load(Path(model), *named)


class Replica:
    """Answers requests with the published version, in one thread, all that wait at a time.

    A request never waits for others to come. All its questions are answered by one version.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.model = folder, load_published(folder)
        REPLICAS.labels(self.model.version).inc()
        self._waiting = Queue[tuple[ModelRequest, Future[Any]]](LONGEST_QUEUE)
        Thread(target=self._answer_waiting, daemon=True).start()

    async def answer(self, request: ModelRequest) -> tuple[ServedModel, list[list[AnswerRow]]]:
        """The likeliest answers to each question of the request, and the model that gave them.

        Raises:
            queue.Full: too many requests wait.
            TimeoutError: this one has waited too long.
        """
        future = Future[Any]()
        with QUEUE.track_inprogress():
            self._waiting.put_nowait((request, future))
            model, answers = await asyncio.wait_for(asyncio.wrap_future(future), LONGEST_WAIT)
            return model, answers

    def _answer_waiting(self) -> None:
        while True:
            batch = [self._waiting.get()]
            while not self._waiting.empty() and _questions(batch) < LARGEST_BATCH:
                batch.append(self._waiting.get())
            self._answer([entry for entry in batch if entry[1].set_running_or_notify_cancel()])

    def _answer(self, batch: list[tuple[ModelRequest, Future[Any]]]) -> None:
        model = self.model
        try:
            with MODEL.time():
                results = model.answer([request for request, _ in batch])
            for (request, future), answers in zip(batch, results, strict=True):
                count_answers(model, request.pairs, answers)
                future.set_result((model, answers))
            BATCH.observe(_questions(batch))
        except Exception as error:
            logger.exception("A batch failed.")
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)

    def follow(self) -> None:
        """Take over each new version; end this process with its parent, which could not end it if
        it was killed."""
        parent = parent_process()
        while parent is None or parent.is_alive():
            sleep(POLL_SECONDS)
            try:
                self.update()
            except Exception:  # for example, out of memory
                logger.exception("The new version can't be loaded; the old one goes on.")
        os.kill(os.getpid(), signal.SIGTERM)

    def update(self) -> None:
        """Load a new version beside the one that answers, and answer with it from now on."""
        old, self.model = self.model, load_published(self.folder, self.model)
        if self.model is not old:
            REPLICAS.labels(old.version).dec()
            REPLICAS.labels(self.model.version).inc()
            logger.info("Version %s answers from now on.", self.model.version)


def _questions(batch: list[tuple[ModelRequest, Future[Any]]]) -> int:
    return sum(len(request.pairs) for request, _ in batch)
