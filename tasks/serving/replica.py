"""One process that answers: its model, and the batches of requests that it answers."""

import asyncio
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

from tasks.inference.predictor import AnswerRow
from tasks.serving.champion import POLL_SECONDS, published
from tasks.serving.metrics import BATCH, QUEUE, REPLICAS, count_answers
from tasks.serving.served_model import ModelRequest, ServedModel

LONGEST_QUEUE = 128  # requests that wait
LARGEST_BATCH = 64  # questions; one request may have more
LONGEST_WAIT = 30.0  # seconds until a request is given up

logger = logging.getLogger(__name__)


class Replica:
    """Answers requests with the published version, in one thread, all that wait at a time.

    A request never waits for others to come. All its questions are answered by one version.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._published = published(folder)
        self.model = ServedModel.load(*self._published)
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
        current = published(self.folder)
        if current != self._published:
            old, self.model = self.model, ServedModel.load(*current)
            self._published = current
            REPLICAS.labels(old.version).dec()
            REPLICAS.labels(self.model.version).inc()
            logger.info("Version %s answers from now on.", self.model.version)


def _questions(batch: list[tuple[ModelRequest, Future[Any]]]) -> int:
    return sum(len(request.pairs) for request, _ in batch)
