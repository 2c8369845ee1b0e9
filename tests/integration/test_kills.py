"""SIGKILL in stages at random delays: finished stages stay, and results do not change."""

import gzip
import hashlib
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prefect import flow
from prefect.settings import PREFECT_API_URL

from infra.artifacts.manifest import MANIFEST
from infra.artifacts.stage import Stage
from infra.atomic_files import BUILDING
from models.span_decoding import Predictions
from tasks.datasets.fetch import Source
from tasks.datasets.tiny import generate
from tasks.evaluation.evaluate import evaluate, load_split, write_predictions
from tests.factories.file_server import Served, serving

pytestmark = pytest.mark.timeout(2400)

STAGES = (
    "fetch",
    "generate-tiny",
    "ingest",
    "split",
    "prepare-corpus",
    "train-embeddings",
    "select-vectors",
    "build-vocabulary",
    "encode",
    "report",
    "check",
)
NOT_KILLED = {
    "answer",
    "compare",
    "compute-layers",
    "copy-language-model",
    "embeddings-report",
    "encode-corpus",
    "ensemble",
    "error-report",
    "evaluate-embeddings",
    "evaluate-language-model",
    "fetch-model",
    "fetch-remote-file",
    "score",
    "select-language-model",
    "train",
    "train-language-model",
}
"""The other stages. Trainings are killed in tests of their own."""
KILLS_PER_STAGE = 4
MAX_KILLS = 20
"""Attempts per stage: on a busy machine, a short stage may end before this process sees it."""
PAGE = re.compile("stages/(report|check)/")


def guess(out: Path, dev: Path) -> dict[str, Any]:
    """Write what the report reads of a training; the model answers each context's first word."""
    split = load_split(dev)
    first, score = np.zeros(len(split.ids), int), np.full(len(split.ids), -1.0)
    answered = evaluate(split, Predictions(first, first, score, score - 1))
    write_predictions(out / "predictions.parquet", split, answered)
    for name, value in {"config": {}, "history": []}.items():
        (out / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    empty = dict.fromkeys(["run_url", "threshold", "no_threshold", "expected_no_answer"])
    numbers = {"parameters": 0, "trained_on": 0, "temperature": 1.0}
    return {"variant": "guess", "scores": {}, "mixes": {}, **numbers, **empty}


def run_flow(root: Path, source: Source) -> None:
    """Run the whole pipeline except training; the target of a separate process."""
    os.environ["BIDAFLOW_ROOT"] = str(root)
    from flows.check import check
    from flows.common.data import ingest_dataset
    from flows.common.parameters import CorpusParameters, DataParameters, VectorParameters
    from flows.common.vectors import encode_dataset, train_from_corpus
    from tasks.embeddings.training.config import EmbeddingParameters
    from tasks.stages import fetch_stage, generate_stage, report_stage
    from tasks.text.build_vocabulary import VocabularyConfig

    @flow
    def pipeline() -> None:
        train = fetch_stage(source).folder / source.name
        dev = generate_stage(3).folder / "dev.json"
        data = DataParameters(dataset="killed", train_files=[str(train)], dev_files=[str(dev)])
        splits = ingest_dataset(data)
        corpus = CorpusParameters(files=[str(splits.train.folder / "contexts.parquet")])
        small = EmbeddingParameters(method="fasttext", dimension=8, buckets=1000, workers=1)
        train_from_corpus(corpus, small, None)
        encoded = encode_dataset(splits, VectorParameters(), VocabularyConfig(pretrained_words=0))
        guessed = Stage(guess, "guess", code="tasks.evaluation.evaluate")(splits.dev.folder).folder
        report_stage(splits.name, [guessed], splits.folders, encoded.vocabulary.folder)
        check(data)

    pipeline()


class Victim:
    """Runs the flow on a root, in processes that have already loaded its modules."""

    def __init__(self, root: Path, source: Source) -> None:
        self.root, self.source = root, source

    def start(self) -> BaseProcess:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["flows.check", "flows.train"])
        process = context.Process(target=run_flow, args=(self.root, self.source))
        process.start()
        return process

    def finish(self) -> None:
        process = self.start()
        process.join(600)
        assert process.exitcode == 0

    def kill_in(self, stage: str, delay: float) -> bool:
        """Kill the flow `delay` seconds after a stage begins; return whether it was interrupted."""
        process = self.start()
        while process.is_alive() and not self.is_building(stage):
            time.sleep(0.002)
        time.sleep(delay)
        process.kill()
        process.join()
        assert process.exitcode in (-signal.SIGKILL, 0)
        return self.is_building(stage)

    def is_building(self, stage: str) -> bool:
        return any((self.root / "stages" / stage).glob(f"{BUILDING}*"))

    def remove_outputs(self, stage: str) -> None:
        """Remove the stage's finished outputs, so that it runs again."""
        for manifest in self.manifests():
            if manifest.startswith(f"stages/{stage}/"):
                shutil.rmtree(self.root / manifest)

    def manifests(self) -> dict[str, str]:
        """Manifests of all finished stages, by folder."""
        return {
            str(file.parent.relative_to(self.root)): file.read_text()
            for file in (self.root / "stages").glob(f"*/[!.]*/{MANIFEST}")
        }

    def digests(self) -> dict[str, str]:
        """Digests of all finished stages; empty for pages, which contain their build time."""
        digests = {name: json.loads(text)["digest"] for name, text in self.manifests().items()}
        return {name: "" if PAGE.match(name) else digest for name, digest in digests.items()}

    def pages(self) -> list[str]:
        """The HTML reports, without the time at which they were built."""
        pages = sorted((self.root / "stages").glob("*/[!.]*/report.html"))
        return [re.sub("<time.*?</time>", "", page.read_text(encoding="utf-8")) for page in pages]

    def seconds(self, stage: str) -> float:
        """Shortest recorded run of the stage, in seconds."""
        manifests = [json.loads(manifest) for manifest in self.manifests().values()]
        return min(float(m["seconds"]) for m in manifests if m["stage"] == stage)


@pytest.fixture
def source(prefect_server: None) -> Iterator[Source]:
    """A small file of questions on a slow server; the processes share one Prefect server."""
    train = generate(3)[0]
    content = gzip.compress(json.dumps({**train, "data": train["data"][:30]}).encode())
    served = Served(content, faults=["slow"] * 100)
    with pytest.MonkeyPatch.context() as patch, serving(served):
        patch.setenv("PREFECT_API_URL", PREFECT_API_URL.value() or "")
        patch.delenv("BIDAFLOW_MIRROR", raising=False)
        digest = hashlib.sha256(content).hexdigest()
        yield Source(name="made.json.gz", sha256=digest, url=served.url)


def test_every_stage_is_killed_or_listed() -> None:
    from tasks import stages

    names = {stage.name for stage in vars(stages).values() if isinstance(stage, Stage)}
    assert names - set(STAGES) == NOT_KILLED


@pytest.mark.full
@pytest.mark.heavy
def test_kills_keep_finished_stages_and_results(source: Source, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed of the delays: {seed}")
    delays = random.Random(seed)
    undisturbed, killed = (Victim(tmp_path / name, source) for name in ("whole", "killed"))
    undisturbed.finish()
    interrupted: Counter[str] = Counter()
    for name in STAGES:
        longest = undisturbed.seconds(name)
        for kill in range(MAX_KILLS):
            if kill >= KILLS_PER_STAGE and interrupted[name]:
                break
            # Of every four kills, the first comes earliest and most likely interrupts the stage.
            latest = longest * (kill % 4 + 1) / 4
            killed.remove_outputs(name)
            finished = killed.manifests()
            interrupted[name] += killed.kill_in(name, delays.uniform(0, latest))
            assert killed.manifests().items() >= finished.items(), "built a second time"
    finished = killed.manifests()
    print(f"interrupted stages: {dict(interrupted)}")
    assert all(interrupted[stage] for stage in STAGES)
    killed.finish()
    assert killed.manifests().items() >= finished.items()
    assert killed.pages() == undisturbed.pages()
    assert killed.digests() == undisturbed.digests()
    assert not any(killed.is_building(stage) for stage in STAGES)
