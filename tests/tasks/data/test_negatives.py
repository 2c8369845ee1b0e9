"""Same-article negatives: questions paired with another paragraph of their article."""

import json
from collections import defaultdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from infra.errors import UserError
from tasks.data.ingested import Portion, normalized
from tasks.data.splits import Exclusions, Shares, write_split
from tasks.datasets.tiny import generate
from tasks.evaluation.evaluate import load_split
from tests.factories.split_files import ingested, new, rows, write


@pytest.fixture(scope="module")
def portions(tmp_path_factory: pytest.TempPathFactory) -> list[Portion]:
    """The generated articles in two files, all with the same title."""
    folder = tmp_path_factory.mktemp("portions")
    articles = [{**article, "title": "unknown"} for article in generate(3)[0]["data"]]
    return [
        ingested(write(folder / f"{name}.json", {"data": part}))
        for name, part in (("first", articles[:7]), ("second", articles[7:]))
    ]


def negative_pairs(folder: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each negative, and the question from which it was sampled."""
    questions = {row["id"]: row for row in rows(folder, "questions")}
    return [(row, questions[id[:-1]]) for id, row in questions.items() if id.endswith("≠")]


def test_answers_in_other_spelling_are_found(tmp_path: Path) -> None:
    def paragraph(id: str, context: str, answer: str) -> dict[str, Any]:
        answers = [{"text": answer, "answer_start": context.index(answer)}]
        return {"context": context, "qas": [{"id": id, "question": "Who ?", "answers": answers}]}

    paragraphs = [
        paragraph("a", "It was the U.S. Army .", "the U.S. Army"),
        paragraph("b", "A US Army captain came .", "captain"),
        paragraph("c", "The captains of the bus army left .", "captains"),
    ]
    article = {"data": [{"title": "Army", "paragraphs": paragraphs}]}
    portion = ingested(write(tmp_path / "army.json", article))
    write_split(new(tmp_path / "split"), [portion], negatives=1)
    pairs = negative_pairs(tmp_path / "split")
    other_of = {question["id"]: negative["context_id"] for negative, question in pairs}
    assert other_of["a"] == 2, "the second paragraph has the answer, without points"


def test_negatives_share_the_article_not_the_answer(
    portions: list[Portion], tmp_path: Path
) -> None:
    plain = write_split(new(tmp_path / "plain"), portions)
    facts = write_split(new(tmp_path / "more"), portions, negatives=0.5)
    contexts = rows(tmp_path / "more", "contexts")
    pairs = negative_pairs(tmp_path / "more")
    chosen = defaultdict(set)
    for negative, question in pairs:
        own, other = (contexts[row["context_id"]] for row in (question, negative))
        assert own["article"] == other["article"] and own["text"] != other["text"]
        for answer in question["answers"]:
            assert normalized(answer["text"]) not in normalized(other["text"])
        assert negative["question"] == question["question"]
        assert negative["token_starts"] == question["token_starts"]
        assert negative["answers"] == [] and negative["is_impossible"]
        assert (negative["span_start"], negative["span_end"]) == (-1, -1)
        chosen[other["article"]].add(other["text"])
    assert len(pairs) == facts["negatives"] == facts["impossible"] - plain["impossible"]
    assert facts["questions"] == plain["questions"] + len(pairs)
    assert len(pairs) == pytest.approx(plain["answerable"] / 2, rel=0.1)
    assert max(map(len, chosen.values())) > 1, "not always the same paragraph"
    ledger = {row["id"]: row for row in rows(tmp_path / "more", "alignment")}
    assert len(ledger) == facts["questions"]
    assert {ledger[negative["id"]]["reason"] for negative, _ in pairs} == {
        "asked about another paragraph of its article"
    }
    assert {ledger[negative["id"]]["outcome"] for negative, _ in pairs} == {"impossible"}
    assert len(load_split(tmp_path / "more")) == facts["questions"]


def test_negatives_are_deterministic_and_only_add_rows(
    portions: list[Portion], tmp_path: Path
) -> None:
    write_split(new(tmp_path / "plain"), portions)
    written = []
    for name, seed in (("once", 1), ("again", 1), ("other", 2)):
        write_split(
            new(tmp_path / name),
            portions,
            shares=Shares(seed=seed),
            negatives=0.5,
        )
        written.append((tmp_path / name / "questions.parquet").read_bytes())
    assert written[0] == written[1] != written[2]
    questions = rows(tmp_path / "once", "questions")
    kept = [row for row in questions if not row["id"].endswith("≠")]
    assert kept == rows(tmp_path / "plain", "questions")
    drawn = [(row["id"], row["context_id"]) for row in questions if row["id"].endswith("≠")]
    assert sha256(json.dumps(drawn).encode()).hexdigest() == DRAWN, "in every process"


DRAWN = "a6f6fce0aa01e54151fcbe4ebab029b0d2b408e6b40cfc97c86d59deb2577a5b"


def test_held_out_contexts_get_no_negatives(portions: list[Portion], tmp_path: Path) -> None:
    """Half of the contexts are in the evaluation set, regardless of article boundaries."""
    texts = [row["text"] for portion in portions for row in rows(portion.folder, "contexts")]
    held_out = set(texts[::2])
    paragraphs = [
        {"context": text, "qas": [entry]} for text, entry in zip(held_out, QUESTIONS, strict=False)
    ]
    evaluation = ingested(
        write(tmp_path / "evaluation.json", {"data": [{"paragraphs": paragraphs}]})
    )
    exclusions = Exclusions(evaluation.folder, overlap="leave out")
    facts = write_split(new(tmp_path / "train"), portions, apart=exclusions, negatives=1)
    assert facts["negatives"] > 0
    assert not held_out & {row["text"] for row in rows(tmp_path / "train", "contexts")}
    contexts = rows(tmp_path / "train", "contexts")
    assert all(row["context_id"] < len(contexts) for row in rows(tmp_path / "train", "questions"))


QUESTIONS = [
    {"id": f"s{i}", "question": "Why?", "answers": [], "is_impossible": True} for i in range(9999)
]


def test_weighted_copies_get_their_own_negatives(portions: list[Portion], tmp_path: Path) -> None:
    twice = [Portion(portions[0].folder, "twice", 2.0)]
    facts = write_split(new(tmp_path / "out"), twice, negatives=1)
    ids = [row["id"] for row in rows(tmp_path / "out", "questions")]
    assert len(set(ids)) == len(ids) == facts["questions"]
    assert any(id.endswith("×2≠") for id in ids)


def test_invalid_questions_have_no_negatives(tmp_path: Path) -> None:
    """Their answers may be wrong, so another paragraph may contain the right one."""
    asked = [
        {"id": id, "question": "Where?", "answers": [{"text": text, "answer_start": 15}]}
        for id, text in (("valid", "hill"), ("invalid", "valley"))
    ]
    paragraphs = [
        {"context": "Mills stand on hills.", "qas": asked},
        {"context": "Inns stand on roads.", "qas": []},
    ]
    file = ingested(write(tmp_path / "one.json", {"data": [{"paragraphs": paragraphs}]}))
    write_split(new(tmp_path / "out"), [file], negatives=1)
    ids = [row["id"] for row in rows(tmp_path / "out", "questions")]
    assert ids == ["valid", "invalid", "valid≠"]
    del paragraphs[1]
    one = ingested(write(tmp_path / "only.json", {"data": [{"paragraphs": paragraphs}]}))
    with pytest.raises(UserError, match=r"^data\.negatives is 0\.5, but no answerable question"):
        write_split(new(tmp_path / "none"), [one], negatives=0.5)


def test_nearly_all_squad_questions_get_negatives(shared_data: Path, tmp_path: Path) -> None:
    """Nearly every SQuAD question has a suitable paragraph in its own article."""
    (tmp_path / "dev.json").symlink_to(shared_data / "squad" / "dev-v1.1.json")
    facts = write_split(
        new(tmp_path / "out"),
        [ingested(tmp_path / "dev.json")],
        negatives=1,
    )
    assert 0.98 * 10_570 < facts["negatives"] <= 10_570
