"""The flow that trains word vectors, and how retrain obtains vectors, trained or downloaded."""

import zipfile
from pathlib import Path
from typing import Any

import pytest
from mlflow.tracking import MlflowClient
from prefect.exceptions import ParameterTypeError
from prefect.utilities.callables import parameter_schema

from flows.common import vectors as flow_file
from flows.common.parameters import CorpusParameters, VectorParameters
from flows.common.vectors import corpus_files, prepare_vectors, train_from_corpus
from flows.train_embeddings import (
    announce,
    evaluation_parameters,
    require_valid_for_method,
    train_embeddings,
)
from infra.artifacts.manifest import hash_file, origins, read_manifest
from infra.artifacts.stage import result_of
from infra.errors import UserError
from infra.settings import settings
from tasks.datasets.fetch import Source
from tasks.embeddings.formats.select import load_vectors
from tasks.embeddings.formats.source import DOWNLOADED, PACKAGED, VECTORS
from tasks.embeddings.training.config import METHODS, ElmoSettings, EmbeddingParameters
from tasks.embeddings.training.word2vec import make_model
from tests.factories.corpus import ANIMALS, two_topic_sentences
from tests.factories.language_models import write_bilm
from tests.factories.tracking_store import refusing_metrics

SMALL = {"dimension": 8, "min_count": 2, "epochs": 1, "workers": 1}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A corpus of twelve words."""
    file = tmp_path / "domain.txt"
    file.write_text("\n".join(" ".join(line) for line in two_topic_sentences(60)), encoding="utf-8")
    return file


def test_trained_set_is_published_and_reused(root: Path, prefect_server: None, text: Path) -> None:
    parameters: Any = {
        "corpus": CorpusParameters(files=[str(text)]),
        "embedding": EmbeddingParameters(method="fasttext", buckets=100, **SMALL),
        "name": "domain",
        "exports": ["word2vec"],
    }
    result = result_of(train_embeddings(**parameters, return_state=True))
    folder = root / "embeddings" / "domain"
    names = ["vectors.parquet", "subwords.safetensors", "word2vec.txt"]
    assert result["files"] == [str(folder / name) for name in names]
    assert set(ANIMALS) < set(load_vectors(result["files"][0]).words)
    assert (
        not result["cached"]
        and result_of(train_embeddings(**parameters, return_state=True))["cached"]
    )
    client = MlflowClient(settings().tracking_uri)
    experiment = client.get_experiment_by_name("bidaflow/embeddings")
    (run,) = client.search_runs([experiment.experiment_id], "tags.`bidaflow.role` = 'variant'")
    expected = {"vectors.method": "fasttext", "vectors.training.buckets": "100", "words": "12"}
    assert {name: run.data.params[name] for name in expected} == expected
    assert run.data.metrics["train/loss"] == pytest.approx(result["losses"][-1])
    corpus = read_manifest(root / "stages" / "train-embeddings" / run.data.tags["bidaflow.stage"])
    assert run.data.tags["corpus.digest"] == corpus["made_from"][0]["digest"]
    assert run.info.status == "FINISHED" and run.inputs.dataset_inputs
    text.unlink()
    failed = train_embeddings(**parameters, return_state=True)
    with pytest.raises(UserError, match="does not exist"):
        result_of(failed)


@pytest.mark.heavy
def test_unlogged_losses_fail_the_flow(root: Path, prefect_server: None, text: Path) -> None:
    client = MlflowClient(settings().tracking_uri)
    client.search_experiments()  # creates the database
    parameters: Any = {
        "corpus": CorpusParameters(files=[str(text)]),
        "embedding": EmbeddingParameters(**SMALL),
    }
    with refusing_metrics(root / "mlflow.db"):
        assert train_embeddings(**parameters, return_state=True).is_failed()
    result = result_of(train_embeddings(**parameters, return_state=True))
    assert result["cached"]
    experiment = client.get_experiment_by_name("bidaflow/embeddings")
    (run,) = client.search_runs([experiment.experiment_id], "tags.`bidaflow.role` = 'variant'")
    assert run.data.metrics["train/loss"] == pytest.approx(result["losses"][-1])
    assert run.info.status == "FINISHED"


@pytest.mark.heavy
def test_set_is_evaluated_against_its_start(root: Path, prefect_server: None, text: Path) -> None:
    corpus = CorpusParameters(files=[str(text)])
    parameters: Any = {"embedding": EmbeddingParameters(**SMALL), "evaluate_on": "tiny"}
    first = result_of(train_embeddings(corpus, name="first", **parameters, return_state=True))
    assert Path(first["report"]).name == "vectors-first-glove-6b-50d-on-tiny.html"
    parameters |= {"start": first["files"][0], "name": "second"}
    second = result_of(train_embeddings(corpus, **parameters, return_state=True))
    assert Path(second["report"]) == root / "reports" / "vectors-second-first-on-tiny.html"
    assert Path(second["report"]).exists()
    parameters |= {"start": second["files"][0]}
    third = result_of(train_embeddings(corpus, **parameters, return_state=True))
    assert Path(third["report"]).name == "vectors-second-on-tiny.html", (
        "the set replaced its start set"
    )
    with pytest.raises(UserError, match="nowhere"):
        result_of(train_embeddings(corpus, evaluate_on="nowhere.json", return_state=True))
    assert not (root / "embeddings" / "trained").exists(), "reported before hours of training"


@pytest.mark.parametrize("name", ["..", ".", "../up", ".part"])
def test_rejects_unsafe_set_names(name: str) -> None:
    with pytest.raises(ParameterTypeError, match="pattern"):
        train_embeddings.validate_parameters({"name": name})


def test_retrain_trains_the_requested_vectors(root: Path, prefect_server: None, text: Path) -> None:
    vectors = VectorParameters(source="glove", corpus_files=[str(text)], dimension=8)
    lower = load_vectors(str(prepare_vectors(vectors, lower_case=True)))
    assert lower.vectors.shape[1] == 8 and all(word == word.lower() for word in lower.words)
    assert str(prepare_vectors(VectorParameters(), lower_case=True)) == PACKAGED
    with pytest.raises(UserError, match="No corpus of texts to read"):
        train_from_corpus(CorpusParameters(), EmbeddingParameters(), None)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("gone.txt", r"No such file: .*gone\.txt"),
        ("gone.parquet", r"gone\.parquet can't be read"),
        ("other.txt", r"have dimension 3, but dimension is set to 8\. Set it to 3"),
    ],
)
def test_rejects_unusable_start_before_reading_corpus(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch, start: str, message: str
) -> None:
    (tmp_path / "other.txt").write_text("owl 1 2 3\n", encoding="utf-8")
    monkeypatch.setattr(
        flow_file, "prepare_corpus_stage", lambda *_: pytest.fail("the corpus is read")
    )
    corpus, small = CorpusParameters(files=[str(text)]), EmbeddingParameters(**SMALL)
    with pytest.raises(UserError, match=message):
        train_from_corpus(corpus, small, str(tmp_path / start))


def test_rejects_unsupported_export_before_training(
    root: Path, prefect_server: None, text: Path
) -> None:
    parameters: Any = {
        "corpus": CorpusParameters(files=[str(text)]),
        "exports": ["fasttext-binary"],
    }
    with pytest.raises(UserError, match="Set method to fasttext"):
        result_of(train_embeddings(**parameters, return_state=True))
    assert not (root / "stages" / "prepare-corpus").exists()


def test_local_files_take_precedence_over_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(flow_file, "fetch_stage", lambda _: pytest.fail("a file is downloaded"))
    for name in ("glove.6B/glove.6B.100d.txt", "medquad/a.txt"):
        Path(name).parent.mkdir()
        Path(name).touch()
    with zipfile.ZipFile("glove.6B/packed.zip", "w"):
        pass
    for spec in ("glove.6B/glove.6B.100d.txt", "glove.6B/packed.zip/a.txt"):
        assert prepare_vectors(VectorParameters(source=spec), lower_case=True) == Path(spec)
    (file,) = corpus_files(CorpusParameters(files=["medquad"]))
    assert file.path == Path("medquad/a.txt")


def test_packaged_vectors_are_recorded_by_digest() -> None:
    files = list(origins({"source": prepare_vectors(VectorParameters(), lower_case=True)}))
    assert [Path(file["path"]).suffix for file in files] == [".parquet", ".npy"]
    for file in files:
        assert file["sha256"] == hash_file(Path(file["path"]))
    assert files[0]["rows"] == 400_000


def test_known_set_is_fetched_and_recorded_by_digest(
    root: Path, prefect_server: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "made.zip", "w") as archive:
        archive.writestr("made.2d.txt", "owl 1 2\n")
        archive.writestr("made.3d.txt", "owl 1 2 3\n")
    digest = hash_file(tmp_path / "made.zip")
    known = DOWNLOADED["glove.6B"].model_copy(
        update={"source": Source(name="made.zip", sha256=digest)}
    )
    monkeypatch.setitem(DOWNLOADED, "glove.6B", known)
    monkeypatch.setenv("BIDAFLOW_MIRROR", str(tmp_path))
    (root / "stages").mkdir(parents=True)
    chosen = prepare_vectors(VectorParameters(source="glove.6B/made.3d.txt"), lower_case=True)
    assert load_vectors(str(chosen)).vectors.tolist() == [[1, 2, 3]]
    (origin,) = origins({"source": chosen})
    assert (origin["file"], origin["sha256"]) == ("made.zip/made.3d.txt", digest)
    with pytest.raises(UserError, match=r"made\.2d\.txt, made\.3d\.txt"):
        load_vectors(str(prepare_vectors(VectorParameters(source="glove.6B"), lower_case=True)))


def test_form_has_bounds_and_choices() -> None:
    schema = parameter_schema(train_embeddings)
    fields = schema.definitions["EmbeddingParameters"]["properties"]
    assert fields["method"]["enum"] == [*METHODS, "elmo"]
    assert all("." in field["description"] for field in fields.values())
    with pytest.raises(ValueError, match=r"min_ngram \(5\) must not exceed max_ngram \(4\)"):
        EmbeddingParameters(min_ngram=5, max_ngram=4)
    assert make_model(EmbeddingParameters(seed=2**32 - 1)).seed == 2**32 - 1
    with pytest.raises(ValueError, match="less than or equal to 4294967295"):
        EmbeddingParameters(seed=2**32)


@pytest.mark.parametrize(
    ("method", "name", "value", "readers"),
    [
        ("skipgram", "x_max", 10, "glove"),
        ("cbow", "memory_mb", 64, "glove"),
        ("fasttext", "alpha", 0.5, "glove"),
        ("skipgram", "max_ngram", 4, "fasttext"),
        ("glove", "buckets", 5, "fasttext"),
        ("glove", "negatives", 9, "cbow or skipgram or fasttext"),
    ],
)
def test_rejects_settings_of_another_method(
    method: str, name: str, value: float, readers: str
) -> None:
    message = f"{name} has no effect with method '{method}'; omit it, or choose method {readers}"
    with pytest.raises(ValueError, match=message):
        EmbeddingParameters.model_validate({"method": method, name: value})


@pytest.mark.parametrize(
    ("method", "start", "exports", "message"),
    [
        ("elmo", "glove.txt", [], r"^No language model glove\.txt"),
        ("glove", "bilm.safetensors", [], "glove continues from word vectors"),
        ("glove", "general", [], "^start is general, but method glove continues from word vectors"),
        ("elmo", None, ["glove"], "exports has no effect with method elmo"),
    ],
)
def test_options_of_other_methods_are_rejected(
    root: Path, method: Any, start: str | None, exports: Any, message: str
) -> None:
    write_bilm(root / "embeddings" / "general")
    with pytest.raises(UserError, match=message):
        require_valid_for_method(EmbeddingParameters(method=method), start, exports)


def test_start_model_keeps_its_sizes_and_words(root: Path) -> None:
    write_bilm(root / "embeddings" / "general")
    other: Any = {"method": "elmo", "seed": 1, "epochs": 2}
    allowed = EmbeddingParameters(**other, elmo=ElmoSettings(window=9))
    require_valid_for_method(allowed, "general", [])
    for name, changes in (
        ("min_count", {"min_count": 2}),
        ("elmo.preset", {"elmo": ElmoSettings(preset="filters-128")}),
        ("elmo.vocabulary", {"elmo": ElmoSettings(vocabulary=9)}),
    ):
        changed = EmbeddingParameters.model_validate({**other, **changes})
        require_valid_for_method(changed, None, [])
        with pytest.raises(UserError, match=f"^{name} has no effect with start"):
            require_valid_for_method(changed, "general", [])


@pytest.mark.parametrize(
    ("method", "start", "sets", "lower_case"),
    [
        ("glove", None, ["new", PACKAGED], False),
        ("elmo", None, ["new", PACKAGED], True),
        ("elmo", "general", ["new", "general"], True),
        ("elmo", "new", ["new"], True),
    ],
)
def test_evaluation_has_the_case_of_its_sets(
    root: Path, tmp_path: Path, method: str, start: str | None, sets: list[str], lower_case: bool
) -> None:
    file = tmp_path / "new"
    start = str(file) if start == "new" else start
    corpus = CorpusParameters(lower_case=False)
    parameters = evaluation_parameters(file, start, method, corpus)
    assert parameters["vectors"] == [str(file), *sets[1:]]
    assert parameters["lower_case"] == lower_case
    published = root / "embeddings" / "support" / VECTORS
    alone = evaluation_parameters(published, "support", method, corpus)
    assert alone["vectors"] == [str(published)], "it is not compared with itself"


def test_first_perplexity_of_a_warm_start_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    entry = {f"held_out/perplexity_{name}": 40.0 for name in ("forward", "backward", "mean")}
    facts: dict[str, Any] = {
        "method": "elmo",
        "dimension": 8,
        "words": 3,
        "corpus": {"words": 9, "distinct": 3},
        "cached": False,
        "files": ["my sets/bilm.safetensors"],
        "held_out_words": 9,
        "run_url": "",
    }
    announce({**facts, "history": [{"words": 0, **entry}, {"words": 500, **entry}]})
    assert "(the start model's: 40.0)" in capsys.readouterr().out
    announce({**facts, "history": [{"words": 25, **entry}, {"words": 500, **entry}]})
    printed = capsys.readouterr().out
    assert "(after the first 25 words: 40.0)" in printed
    assert "bidaflow embeddings evaluate --vectors 'my sets/bilm.safetensors'\n" in printed
    options = "--variants char-elmo --vectors.contextual 'my sets/bilm.safetensors'"
    assert f"bidaflow retrain --data.dataset FILE {options}\n" in printed


def test_next_commands_are_quoted_for_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    facts: dict[str, Any] = {
        "method": "glove",
        "dimension": 8,
        "words": 3,
        "corpus": {"words": 9, "distinct": 3},
        "cached": False,
        "files": ["my sets/vectors.parquet"],
    }
    announce(facts)
    printed = capsys.readouterr().out
    assert "bidaflow embeddings evaluate --vectors 'my sets/vectors.parquet'\n" in printed
    source = "--vectors.source 'glove-6b-50d+my sets/vectors.parquet'"
    assert f"bidaflow retrain --data.dataset FILE {source}\n" in printed
    announce({**facts, "carried_over": 2, "unchanged": 1, "new": 0, "dataset": "tickets.json"})
    continued = "retrain --data.dataset tickets.json --vectors.source 'my sets/vectors.parquet'\n"
    assert continued in capsys.readouterr().out, "it knows the general set that it started from"


def test_elmo_has_settings_of_its_own() -> None:
    with pytest.raises(ValueError, match="dimension has no effect with method 'elmo'; omit it"):
        EmbeddingParameters(method="elmo", dimension=50)
    with pytest.raises(ValueError, match="elmo has no effect with method 'glove'"):
        EmbeddingParameters(method="glove", elmo=ElmoSettings(window=9))
    assert (
        EmbeddingParameters(method="elmo", elmo=ElmoSettings(window=9), min_count=2).epoch_count
        == 1
    )
