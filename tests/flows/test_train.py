"""What a training of variants refuses before it reads any data."""

from pathlib import Path

import pytest

from flows.common.parameters import (
    ContextualParameters,
    DataParameters,
    TrainingParameters,
    VariantName,
    VectorParameters,
)
from flows.compare_variants import build_grid
from flows.train import TrainingInputs, announce, train_variants
from infra.cluster.allotment import Resources
from infra.errors import UserError
from tasks.text.build_vocabulary import VocabularyParameters


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("char-elmo", r"^No language model genral\."),
        ("char", r"^training\.contextual\.where has no effect"),
    ],
)
def test_contextual_options_are_checked_first(
    root: Path, variant: VariantName, message: str
) -> None:
    vectors, vocabulary = VectorParameters(contextual="genral"), VocabularyParameters()
    training = TrainingParameters(contextual=ContextualParameters(where="both"))
    data = DataParameters()
    with pytest.raises(UserError, match=message):
        inputs = TrainingInputs(data, vectors, vocabulary)
        train_variants(inputs, [variant], training, Resources(), [])
    with pytest.raises(UserError, match=message):
        build_grid([data], [vectors], [(variant, 0)], vocabulary, training, None)
    assert not (root / "stages").exists()


@pytest.mark.parametrize(
    ("dataset", "command"),
    [("tiny", "bidaflow ask QUESTION"), ("tickets", "bidaflow ask --dataset tickets QUESTION")],
)
def test_next_command_asks_about_the_dataset(
    dataset: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"variant": "char", "F1": "1.00"}]
    facts = {"trained": ["char"], "decision": None, "questions": 2, "report": "report.html"}
    announce({"dataset": dataset, "rows": rows, **facts})
    assert f"Next       {command} --context FILE" in capsys.readouterr().out
