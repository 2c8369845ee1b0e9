"""Data steps and answers on a Ray cluster of two nodes, which equal those of one process."""

import json
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import ray
from ray.cluster_utils import Cluster

from infra.cluster import ray_cluster
from infra.cluster.map_reduce import map_on_cluster
from infra.errors import UserError
from infra.files import reporting_read_progress
from infra.own_packages import PACKAGES
from tasks.data import readers
from tasks.data.ingest import ingest_file
from tasks.embeddings.formats.select import select_vectors
from tasks.embeddings.formats.source import PACKAGED
from tasks.embeddings.training import corpus
from tasks.embeddings.training.corpus_files import TextFile
from tasks.inference import answer_files
from tasks.inference.predictor import Predictor
from tasks.text import split_texts
from tasks.text.build_vocabulary import VocabularyConfig, build_vocabulary
from tasks.text.encode import encode_split
from tasks.text.split_texts import wanted_words
from tests.factories.answers import same_answers
from tests.factories.logged_models import CONTEXT, save_untrained_model

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("small_shards")]

Results = dict[str, Any]


@pytest.fixture(scope="module")
def small_shards() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "SHARD_BYTES", 100_000)
        patch.setattr(split_texts, "SHARD_BYTES", 100_000)
        patch.setattr(corpus, "BLOCK_CHARACTERS", 100_000)
        yield


def data_steps(root: Path, file: Path) -> Results:
    """The facts and digests of all data steps of a file."""
    names = ("ingested", "vectors", "vocabulary", "encoded", "corpus")
    split, vectors, words, encoded, text = (root / name for name in names)
    for folder in (split, vectors, words, encoded, text):
        folder.mkdir(parents=True)
    parameters = VocabularyConfig(pretrained_words=0)
    facts = [ingest_file(split, file)]
    select_vectors(vectors, PACKAGED, wanted_words([split], parameters.lower_case), 0)
    facts.append(build_vocabulary(words, split, [], vectors, parameters))
    facts.append(encode_split(encoded, split, words))
    facts.append(corpus.prepare_corpus(text, [TextFile(split / "contexts.parquet", "text")], True))
    del facts[-1]["words_per_second"]
    files = sorted(file for file in root.rglob("*.*") if file.is_file())
    digests = {str(f.relative_to(root)): sha256(f.read_bytes()).hexdigest() for f in files}
    assert len(digests) == 11
    return {"facts": facts, "digests": digests}


@pytest.fixture(scope="module")
def file(shared_data: Path) -> Path:
    return shared_data / "squad" / "cs224n-dev-v2.0.json"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory, file: Path, small_shards: None) -> Results:
    """The results of this process, before there is a cluster."""
    assert not ray_cluster.is_connected()
    return data_steps(tmp_path_factory.mktemp("here"), file)


@pytest.fixture(scope="module")
def two_nodes(expected: Results) -> Iterator[None]:
    """A cluster of two nodes with a CPU each, joined by its address."""
    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RAY_ADDRESS", cluster.address)
            yield
    finally:
        ray_cluster.disconnect()
        cluster.shutdown()


@pytest.fixture
def node_of() -> Callable[[int], tuple[int, str]]:
    """A function that returns its number and the node that it runs on, and refuses large numbers.

    A function of a module would travel by its name, but the nodes have no tests.
    """

    def node(number: int) -> tuple[int, str]:
        if number > 100:
            raise UserError(f"{number} is above 100.")
        return number, ray.get_runtime_context().get_node_id()

    return node


def test_nodes_get_our_packages_alone(two_nodes: None) -> None:
    def files(_: int) -> set[str]:
        return {str(path) for path in Path().rglob("*") if path.is_file()}

    (sent,) = map_on_cluster(files, [0])
    assert {name.partition("/")[0] for name in sent} == set(PACKAGES)
    assert {"tasks/training/worker.py", "tasks/reports/templates/report.html.j2"} <= sent


def test_every_node_gives_results_in_order(
    two_nodes: None, node_of: Callable[[int], tuple[int, str]], tmp_path: Path
) -> None:
    def when_both_are_there(number: int) -> tuple[int, str]:
        """One node would otherwise do everything while the other one starts its process."""
        _, node = node_of(number)
        (tmp_path / node).touch()
        end = time.monotonic() + 600
        while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        return number, node

    results = list(map_on_cluster(when_both_are_there, range(40)))
    assert [number for number, _ in results] == list(range(40))
    assert len({node for _, node in results}) == 2


def test_error_of_a_node_arrives_as_it_is(
    two_nodes: None, node_of: Callable[[int], tuple[int, str]]
) -> None:
    def numbers() -> Iterator[int]:
        yield from (1, 101, 2, 102)
        raise UserError("The numbers end.")

    with pytest.raises(UserError) as raised:
        list(map_on_cluster(node_of, numbers()))
    assert (type(raised.value), str(raised.value)) == (UserError, "101 is above 100.")


def test_files_and_facts_are_those_of_one_process(
    two_nodes: None, tmp_path: Path, file: Path, expected: Results
) -> None:
    shares: list[float] = []
    with reporting_read_progress(lambda path, share: shares.append(share if path == file else 0)):
        assert data_steps(tmp_path, file) == expected
    read = [share for share in shares if share]
    assert len(read) > 10 and read == sorted(read) and read[-1] == 1


def test_nodes_answer_the_questions_of_a_file(
    two_nodes: None, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_files, "PART_QUESTIONS", 7)
    save_untrained_model(tmp_path).rename(tmp_path / "model")
    pairs = [(f"Where is mill {number}?", CONTEXT) for number in range(60)]
    lines = [
        json.dumps({"id": number, "question": question, "context": context})
        for number, (question, context) in enumerate(pairs)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "out").mkdir()
    answer_files.answer_files(tmp_path / "out", [tmp_path / "a.jsonl"], tmp_path, "made", "1")
    rows = pq.read_table(tmp_path / "out" / "answers.parquet").to_pylist()
    assert [row["question"] for row in rows] == [question for question, _ in pairs]
    expected = Predictor.load(tmp_path / "model").answer(pairs)
    assert all(map(same_answers, rows, expected))
