"""The contexts that models were trained on, and the questions that are new to them."""

from pathlib import Path

from tasks.evaluation.evaluate import load_split
from tasks.inference.trained_contexts import new_to_models, trained_contexts, write_trained_contexts
from tests.factories.splits import ingest


def test_questions_about_trained_contexts_are_not_new(tmp_path: Path) -> None:
    """Also those of the model that a warm start began with."""
    mill, inn, river = "The mill stands on the hill.", "The inn is old.", "The river is wide."
    first, second, earlier = (tmp_path / name for name in ("first", "second", "earlier-release"))
    for folder in (first, second, earlier):
        folder.mkdir()
    write_trained_contexts(first, ingest(tmp_path / "a", (mill, ["Where?"])), None)
    write_trained_contexts(second, ingest(tmp_path / "b", ("THE INN  is old.", ["How?"])), first)
    assert len(trained_contexts(first)) == 1 and len(trained_contexts(second)) == 2
    asked = [(mill, ["What?", "Where?"]), (inn, ["What?"]), (river, ["What?"])]
    split = load_split(ingest(tmp_path / "c", *asked))
    for models, new in (
        ([], [True] * 4),
        ([earlier], [True] * 4),
        ([first], [False, False, True, True]),
        ([earlier, second], [False, False, False, True]),
    ):
        assert new_to_models(split, models).tolist() == new
