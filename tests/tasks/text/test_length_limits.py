"""Sentences about texts that are too long for a training."""

from collections import Counter

from models.configs.variant import TrainingConfig
from tasks.text.length_limits import too_long

SHORT = Counter({10: 100})


def test_few_long_texts_are_not_mentioned() -> None:
    few = Counter({10: 96, 1000: 4})
    assert too_long(few, few, few, TrainingConfig()) == []
    assert too_long(Counter(), Counter(), Counter(), TrainingConfig()) == []


def test_limits_that_suffice_are_proposed() -> None:
    answers = Counter({5: 60, 31: 39, 200: 1})
    (sentence,) = too_long(SHORT, SHORT, answers, TrainingConfig())
    assert sentence == (
        "40% of the answers have more than 15 tokens, so they can't be predicted. "
        "Set training.max_answer_tokens, for example to 40."
    )
    assert too_long(SHORT, SHORT, answers, TrainingConfig(max_answer_tokens=40)) == []
    (sentence,) = too_long(SHORT, Counter({60: 1}), SHORT, TrainingConfig())
    assert sentence.endswith("Set training.max_question_tokens, for example to 60.")


def test_contexts_in_windows_are_not_too_long() -> None:
    contexts = Counter({100: 3, 500: 1})
    (sentence,) = too_long(contexts, SHORT, SHORT, TrainingConfig())
    assert sentence.startswith("25% of the contexts have more than 400 tokens")
    assert "training.window_stride, for example to 200" in sentence
    assert too_long(contexts, SHORT, SHORT, TrainingConfig(window_stride=200)) == []
