"""The evaluation of a language model: every section, and the page that shows it."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tasks.embeddings.evaluation.evaluate import Queries, evaluate_vectors
from tasks.embeddings.evaluation.evaluate_contextual import evaluate_bilm
from tasks.embeddings.evaluation.homonyms import HOMONYMS
from tasks.embeddings.evaluation.published_tests import SIMILARITY_TESTS
from tasks.embeddings.formats.store import write_vectors
from tasks.embeddings.formats.word_vectors import WordSet
from tasks.reports.embeddings_report import write_embeddings_report
from tests.factories.html import visible_text
from tests.factories.language_models import CONFIG, write_bilm
from tests.factories.splits import ingest

SENTENCE = "club: The chess club meets every Thursday in the library."
QUERIES = Queries(
    words=["tear", "zyxgl", "The"], sentences=[SENTENCE], analogies=["golf club river"]
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The evaluations of a language model and of a small set of word vectors."""
    root = tmp_path_factory.mktemp("evaluated")
    men = root / SIMILARITY_TESTS["MEN"].name
    men.write_text("club clubs 9\nclub golf 5\nriver clubs 1\n", encoding="utf-8")
    split = ingest(root / "split", ("The club met in Xyzzyvale.", ["Who met?"]))
    words = ["golf", "club", "river", "the"]
    set_folder = root / "set"
    for name in ("bilm", "static", "set"):
        (root / name).mkdir()
    write_vectors(
        set_folder,
        WordSet(words, np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)),
        {"method": "cbow"},
    )
    tests, file = [men, HOMONYMS], write_bilm(root / "model", lower_case=True)
    evaluate_bilm(root / "bilm", file, tests, [split], QUERIES)
    source = set_folder / "vectors.parquet"
    evaluate_vectors(root / "static", source, tests, [split], QUERIES)
    return root


@pytest.fixture(scope="module")
def evaluation(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "bilm" / "evaluation.json").read_text("utf-8"))
    return result


def test_homonyms_are_scored_for_each_layer(evaluation: dict[str, Any]) -> None:
    layers = evaluation["homonyms"]
    assert list(layers) == ["layer 0", "layer 1", "layer 2"]
    assert layers["layer 0"]["accuracy"] == 0.5, "the word itself can't tell its sense"
    assert all(result["covered"] == 1 and result["questions"] >= 480 for result in layers.values())
    assert layers[f"layer {evaluation['layer']}"]["accuracy"] > 0.5


def test_all_words_are_covered(evaluation: dict[str, Any]) -> None:
    everything = evaluation["coverage"]["all"]
    assert everything["tokens_covered"] == everything["types_covered"] == 1
    assert everything["missing"] == [] and evaluation["similarity"]["MEN"]["covered"] == 1
    assert evaluation["dimension"] == CONFIG.vector_size


def test_neighbours_are_words_in_other_sentences(evaluation: dict[str, Any]) -> None:
    in_sentence = evaluation["neighbours"][SENTENCE]
    assert len(in_sentence) == 10
    labels = [label for label, _ in in_sentence]
    assert all(re.search("“.+”", label) for label in labels)
    assert not any("Thursday" in label for label in labels), "the sentence itself is left out"
    cosines = [cosine for _, cosine in in_sentence]
    assert cosines == sorted(cosines, reverse=True) and cosines[0] <= 1
    by_spelling = evaluation["neighbours"]["zyxgl"]
    assert len(by_spelling) == 10 and "zyxgl" not in dict(by_spelling)


def test_neighbours_follow_the_casing_of_the_model(evaluation: dict[str, Any]) -> None:
    others = evaluation["neighbours"]["The"]
    words = [word for word, _ in others]
    assert "the" not in words and words == [word.lower() for word in words]
    assert max(cosine for _, cosine in others) < 0.9999, "not the word itself in another case"


def test_page_shows_language_model_beside_set(folder: Path) -> None:
    folders = [folder / "bilm", folder / "static"]
    write_embeddings_report(folder, ["general", "glove"], folders, dataset="own")
    page = (folder / "embeddings.html").read_text(encoding="utf-8")
    text = visible_text(page)
    for expected in ("Homonyms", "layer 1", "mean of context", "all words, dimension 32"):
        assert expected in text
    assert re.search(r"Of the homonyms' senses, [\d.]+ % general \(layer [012]\), ", text)
    assert re.search(r"Of the tokens of own, 100.0 % \(general\), [\d.]+ % \(glove\)", text)
    for row in ("flowers, insects: pleasant, unpleasant", "golf club river"):
        assert f"{row} not for language models" in text
