"""Warm starts: models that start from the weights of earlier ones with another vocabulary."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

from infra.errors import UserError
from models.configs.presets import preset
from tasks.inference.trained_contexts import write_trained_contexts
from tasks.training.initialization import (
    leakage_warning,
    new_model,
    warm_start_summary,
    word_vectors_of,
)
from tasks.training.inputs import TrainingData
from tests.factories.training_data import prepare, save_warm_start, small


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> TrainingData:
    return prepare(tmp_path_factory.mktemp("prepared"), articles=2)


@pytest.fixture
def earlier(data: TrainingData, tmp_path: Path) -> Path:
    """A model with all weights 0.25 and its characters in the opposite order."""
    save_warm_start(tmp_path, small(), data)
    table = pq.read_table(data.vocabulary / "characters.parquet")
    rows = [0, 1, *range(len(table) - 1, 1, -1)]
    pq.write_table(table.take(pa.array(rows)), tmp_path / "model" / "characters.parquet")
    return tmp_path


def test_model_starts_from_an_earlier_one(data: TrainingData, earlier: Path) -> None:
    model, carried = new_model(small(seed=5), replace(data, start_from=earlier))
    assert carried is not None
    assert all((parameter == 0.25).all() for parameter in model.parameters())
    characters = pq.read_metadata(data.vocabulary / "characters.parquet").num_rows
    assert warm_start_summary(carried, small()) == (
        f"char: warm start with {len(list(model.parameters()))} parameter tensors of the earlier "
        f"model and the vectors of {characters} characters, 100.0 % of its weights."
    )
    random, no_warm_start = new_model(small(seed=5), data)
    assert no_warm_start is None
    assert not (random.output.start_modeling.weight == 0.25).any()


def test_model_without_word_vectors_is_warm_started(data: TrainingData, tmp_path: Path) -> None:
    variant = preset("char-only").with_changes(hidden_size=8)
    start = save_warm_start(tmp_path, variant, data)
    again, carried = new_model(variant, replace(data, start_from=start))
    assert carried is not None
    assert all((parameter == 0.25).all() for parameter in again.parameters())


def test_warm_starts_keep_random_vectors(data: TrainingData, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = prepare(tmp_path / "other", articles=3)
    variant = small(unknown_words="random")
    before = torch.from_numpy(word_vectors_of(variant, data))
    again = small(unknown_words="random", seed=variant.training.seed + 1)
    started = replace(other, start_from=save_warm_start(tmp_path, variant, data))
    _, carried = new_model(again, started)
    assert carried is not None
    now = torch.from_numpy(word_vectors_of(again, started))
    tables = [pq.read_table(d.vocabulary / "words.parquet") for d in (data, other)]
    rows = {word: row for row, word in enumerate(tables[0]["word"].to_pylist())}
    drawn = [
        (rows[word], row)
        for row, word in enumerate(tables[1]["word"].to_pylist())
        if row > 0 and word in rows and not tables[1]["in_vectors"][row].as_py()
    ]
    assert len(drawn) > 10
    assert torch.equal(before[[old for old, _ in drawn]], now[[new for _, new in drawn]])
    others = sorted(set(range(1, len(now))) - {new for _, new in drawn})
    assert now[others].any(dim=1).all(), "words that are new have vectors, too"


def test_rejects_another_architecture(data: TrainingData, earlier: Path) -> None:
    sentence = r"^char can't be initialized from the model in start_from: the shape of .*\.$"
    with pytest.raises(UserError, match=sentence):
        new_model(small(hidden_size=9), replace(data, start_from=earlier))


def test_rejects_other_word_vectors(data: TrainingData, earlier: Path) -> None:
    file = earlier / "model" / "vectors.safetensors"
    vectors = load_file(file)["word_vectors"]
    for other in (vectors * 1.1, vectors[:, :10].contiguous()):
        save_file({"word_vectors": other}, file)
        with pytest.raises(UserError, match="other word vectors"):
            new_model(small(), replace(data, start_from=earlier))


def test_warns_of_evaluation_data_in_a_warm_start(data: TrainingData, earlier: Path) -> None:
    warm = replace(data, start_from=earlier)
    assert leakage_warning("char", data) is None
    write_trained_contexts(earlier / "model", data.train.ingested, None)
    assert leakage_warning("char", warm) is None
    write_trained_contexts(earlier / "model", data.dev.ingested, earlier / "model")
    warning = str(leakage_warning("char", warm))
    assert warning.startswith("char: 25 of 25 dev questions are about contexts")
    assert data.validation is not None
    write_trained_contexts(earlier / "model", data.validation.ingested, earlier / "model")
    both = "char: 25 of 25 validation questions and 25 of 25 dev questions are about"
    assert str(leakage_warning("char", warm)).startswith(both)
