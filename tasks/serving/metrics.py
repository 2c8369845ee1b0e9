"""The metrics of a server, for Prometheus: those of all its processes together.

The variable PROMETHEUS_MULTIPROC_DIR, which prometheus-client reads when it is imported, names the
folder in which the processes keep them.
"""

import os
from collections.abc import Sequence

from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Summary,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from tasks.inference.predictor import AnswerRow, TextPair
from tasks.serving.served_model import ServedModel
from tasks.text.tokenizer import tokenize
from tasks.text.vocabulary import UNKNOWN

VERSION = ["version"]

REQUESTS = Counter("bidaflow_requests", "Requests by door and status.", ["door", "status"])
LATENCY = Histogram(
    "bidaflow_request_seconds",
    "Time to reply.",
    ["door"],
    buckets=(0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
BATCH = Histogram(
    "bidaflow_batch_questions",
    "Questions answered together.",
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
)
MODEL = Summary("bidaflow_model_seconds", "Time in which the model answered a batch.")
QUEUE = Gauge(
    "bidaflow_queue_requests", "Requests waiting or being answered.", multiprocess_mode="livesum"
)
REPLICAS = Gauge(
    "bidaflow_replicas",
    "Replicas that answer with a version.",
    VERSION,
    multiprocess_mode="livesum",
)
FOLLOWS = Gauge(  # set by one process; the others leave it at 0
    "bidaflow_follows_champion",
    "0 if MLflow is away, or the champion can't be loaded: the last version goes on.",
    multiprocess_mode="livemax",
)
# Their means are the sums divided by the number of answers, which is the same for all of them.
NO_ANSWER = Summary("bidaflow_no_answer", "1 for no answer in the context, else 0.", VERSION)
PROBABILITY = Summary("bidaflow_answer_probability", "Probability of the answer.", VERSION)
OOV_SHARE = Summary("bidaflow_oov_share", "Share of words that the vocabulary lacks.", VERSION)
LENGTH = Summary("bidaflow_context_characters", "Length of the context.", VERSION)


def count_answers(
    model: ServedModel, pairs: Sequence[TextPair], answers: Sequence[Sequence[AnswerRow]]
) -> None:
    """Count what tells whether texts and answers are like those of the training."""
    version, word = model.version, model.predictor.lexicon.word
    for pair, (row, *_) in zip(pairs, answers, strict=True):
        if not row["error"]:
            words = [word(text[start:end]) for text in pair for start, end in tokenize(text)]
            OOV_SHARE.labels(version).observe(words.count(UNKNOWN) / len(words))
            NO_ANSWER.labels(version).observe(not row["answer"])
            PROBABILITY.labels(version).observe(row["probability"])
            LENGTH.labels(version).observe(len(pair[1]))


def report() -> bytes:
    """All metrics in Prometheus' text format."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)
