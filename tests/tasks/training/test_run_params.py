"""Run parameters in MLflow: all requested settings, under the same names in every run."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from flows.common.data import ingest_dataset
from flows.common.parameters import (
    DataParameters,
    MixedSource,
    VariantName,
    VectorParameters,
)
from flows.common.presets import configure
from flows.common.training import Training, model_to_start_from
from flows.common.vectors import encode_dataset
from infra.artifacts.manifest import content_digest, digest_of, identity
from infra.cluster.allotment import Resources
from infra.settings import settings
from tasks.datasets.tiny import generate
from tasks.embeddings.formats.select import select_vectors
from tasks.embeddings.formats.source import JoinedVectors, stage_input
from tasks.embeddings.formats.store import history_of, write_vectors
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.text.build_vocabulary import VocabularyConfig
from tasks.tracking.registry import MODEL_FILES, MODEL_TABLES
from tasks.tracking.runs import flatten
from tasks.training.run_params import source_digest, vector_parameters
from tasks.training.train_variant import start_run
from tests.factories.stages import in_flow
from tests.factories.vectors import write_lines


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A file of a few articles, next to one to mix in and one to evaluate on."""
    own, more = generate(1, 6, 1, 2)
    files = {"own.json": own, "more.json": more, "scored.json": generate(2, 1, 1, 2)[1]}
    for name, data in files.items():
        (tmp_path / name).write_text(json.dumps(data), encoding="utf-8")
    return tmp_path / "own.json"


@pytest.fixture
def trained_vectors(tmp_path: Path) -> Path:
    """A vector set in a folder "support", as `bidaflow embeddings train` writes it."""
    (tmp_path / "support").mkdir()
    history = {"method": "skipgram", "dimension": 2, "parameters": {"dimension": 2, "window": 3}}
    write_vectors(tmp_path / "support", WordSet(["the"], np.ones((1, 2), np.float32)), history)
    return tmp_path / "support" / "vectors.parquet"


@pytest.fixture
def earlier_model(tmp_path: Path) -> Path:
    """The files of a model; only their location matters, not their content."""
    (tmp_path / "model").mkdir()
    for name in MODEL_FILES:
        (tmp_path / "model" / name).write_text("{}", encoding="utf-8")
    for name in MODEL_TABLES:
        pq.write_table(pa.table({"name": [name]}), tmp_path / "model" / name)
    return tmp_path / "model"


class RunRequest(NamedTuple):
    """The parameters of a requested run."""

    data: DataParameters
    vectors: VectorParameters = VectorParameters()
    vocabulary: VocabularyConfig = VocabularyConfig(pretrained_words=0)
    resources: Resources = Resources()
    start_from: str | None = None


def start_mlflow_run(name: VariantName, request: RunRequest) -> Run:
    """The MLflow run of a training before its first step."""

    def work() -> str:
        splits, start = ingest_dataset(request.data), model_to_start_from(request.start_from)
        encoded = encode_dataset(splits, request.vectors, request.vocabulary)
        dataset, variant, folders = Training(configure(name, {}), splits, encoded, start).inputs
        return start_run(dataset, variant, name, folders, request.resources, resumed=False)

    return MlflowClient(settings().tracking_uri).get_run(in_flow(work, f"start-{name}"))


@pytest.mark.heavy
def test_every_run_logs_all_requested_parameters(
    root: Path, prefect_server: None, own: Path, trained_vectors: Path, earlier_model: Path
) -> None:
    plain = start_mlflow_run(
        "baseline", RunRequest(DataParameters(dataset=str(own), validation_share=0))
    )
    changed = RunRequest(
        DataParameters(
            dataset="own",
            train_files=[str(own)],
            dev_files=[str(own.with_name("scored.json"))],
            mix=[MixedSource(files=[str(own.with_name("more.json"))], weight=0.5)],
            validation_share=0.3,
            negatives=0.25,
            seed=3,
            repair=True,
            max_rejected=0.1,
            overlap="leave out",
        ),
        VectorParameters(source=str(trained_vectors)),
        VocabularyConfig(min_count=3, pretrained_words=0),
        Resources(workers=2, cpus_per_worker=1, gpu=False),
        str(earlier_model),
    )
    other = start_mlflow_run("char", changed)
    assert plain.data.params.keys() == other.data.params.keys()
    assert differing(plain, other) == {
        "variant": ("baseline", "char"),
        "characters.embedding_size": ("None", "64"),
        "characters.kernel_widths": ("None", "(5,)"),
        "characters.filters": ("None", "(100,)"),
        "characters.max_characters": ("None", "16"),
        "query_to_context": ("starter", "max"),
        "start_from": ("None", str(earlier_model)),
        "data.seed": ("7", "3"),
        "data.validation_share": ("0.0", "0.3"),
        "data.dev_share": ("0.1", "0.0"),
        "data.mix": ("None", "more.json × 0.5"),
        "data.negatives": ("0.0", "0.25"),
        "data.repair": ("False", "True"),
        "data.max_rejected": ("0.05", "0.1"),
        "data.overlap": ("None", "leave out"),
        "vocabulary.min_count": ("2", "3"),
        "vectors.source": ("glove-6b-50d", "support/vectors.parquet"),
        "vectors.source_digest": digests(plain, other),
        "vectors.method": ("pre-trained", "skipgram"),
        "vectors.dimension": ("50", "2"),
        "vectors.training.dimension": ("None", "2"),
        "vectors.training.window": ("None", "3"),
        "resources.workers": ("1", "2"),
        "resources.cpus_per_worker": ("0", "1"),
        "resources.gpu": ("None", "False"),
    }
    assert contexts(plain) == {"train", "dev"}
    assert contexts(other) == {"train", "dev", "validation"}


@pytest.mark.heavy
@pytest.mark.parametrize("gone", [False, True])
def test_split_of_another_machine_has_its_settings(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prefect_server: None,
    other_machine: Callable[[], None],
    own: Path,
    trained_vectors: Path,
    gone: bool,
) -> None:
    monkeypatch.setenv("BIDAFLOW_ROOT", f"file://{tmp_path}/shared")
    monkeypatch.setenv("BIDAFLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BIDAFLOW_MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    data = DataParameters(dataset=str(own), max_rejected=0.2)
    request = RunRequest(data, VectorParameters(source=str(trained_vectors)))
    first = start_mlflow_run("baseline", request)
    other_machine()
    own.write_text(json.dumps(json.loads(own.read_text()), indent=2), encoding="utf-8")
    if gone:
        shutil.rmtree(tmp_path / "shared" / "stages" / "ingest")
    second = start_mlflow_run("baseline", request)
    left_out = {"data.repair", "data.max_rejected"} if gone else set()
    assert first.data.params["data.max_rejected"] == "0.2"
    assert second.data.params == {
        name: value for name, value in first.data.params.items() if name not in left_out
    }


def differing(one: Run, other: Run) -> dict[str, tuple[str, str]]:
    pairs = {name: (value, other.data.params[name]) for name, value in one.data.params.items()}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def digests(*runs: Run) -> tuple[Any, ...]:
    """The source digests of runs; asserts that they have twelve digits and differ."""
    values = tuple(run.data.params["vectors.source_digest"] for run in runs)
    assert len(set(values)) == len(values) and {len(digest) for digest in values} == {12}
    return values


def contexts(run: Run) -> set[str]:
    """The contexts in which a run used its datasets; asserts that each digest is a tag."""
    inputs = {i.tags[0].value: i.dataset.digest for i in run.inputs.dataset_inputs}
    for name, digest in inputs.items():
        assert run.data.tags[f"{name}.digest"].startswith(digest)
    return set(inputs)


def test_joined_sets_log_the_parameters_of_each(tmp_path: Path, trained_vectors: Path) -> None:
    other, out = write_lines(tmp_path / "other.txt", "owl 1"), tmp_path / "out"
    out.mkdir()
    source = JoinedVectors((Path(other), stage_input(trained_vectors)))
    facts = select_vectors(out, source, {"owl", "the"}, keep_first=0)
    manifest = {"inputs": {"source": identity(source)}, "facts": facts}
    logged = flatten(vector_parameters(manifest, history_of(out / "vectors.parquet")))
    assert (logged["method"], logged["dimension"], logged["parts"]) == (
        *("joined", 5, "other.txt, support"),
    )
    digest = content_digest(trained_vectors)[:12]
    assert {name: value for name, value in logged.items() if name.startswith("part_2.")} == {
        "part_2.source": "support",
        "part_2.source_digest": digest,
        "part_2.dimension": 2,
        "part_2.method": "skipgram",
        "part_2.training.dimension": 2,
        "part_2.training.window": 3,
    }


@pytest.mark.parametrize(
    ("source", "digest"),
    [
        ("d1", "d1"),
        (["d1", "d2"], digest_of(["d1", "d2"])),
        ({"vectors": "d1", "subwords": None}, "d1"),
        ({"vectors": "d1", "subwords": "d2"}, digest_of(["d1", "d2"])),
        ({"words": "d1", "vectors": "d2"}, digest_of({"words": "d1", "vectors": "d2"})),
    ],
)
def test_digest_is_the_same_for_older_manifests(source: Any, digest: str) -> None:
    assert source_digest({"inputs": {"source": source}}) == digest
