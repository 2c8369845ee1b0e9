"""Questions that ask for, or are answered with, words which a set of vectors lacks."""

from collections.abc import Container

import numpy as np
import numpy.typing as npt

from tasks.evaluation import EvaluationSplit
from tasks.lexicon import case_key, typewriter
from tasks.predictions import Columns, mean
from tasks.tokenizer import tokenize


def holds_unknown(text: str, known: Container[str], lower_case: bool = True) -> bool:
    """Whether some token of a text is in `known` neither as it is nor with plain quotes."""
    keys = (case_key(text[start:end], lower_case) for start, end in tokenize(text))
    return any(key not in known and typewriter(key) not in known for key in keys)


def outside_vectors(
    split: EvaluationSplit, known: Container[str], lower_case: bool = True
) -> npt.NDArray[np.bool_]:
    """(n,) whether a question, or one of its answers, holds a word that is not `known`."""
    return np.array(
        [
            any(holds_unknown(text, known, lower_case) for text in (question, *golds))
            for question, golds in zip(split.questions, split.gold_texts, strict=True)
        ],
        dtype=bool,
    )


def scores_outside(
    split: EvaluationSplit, answers: Columns, known: Container[str]
) -> dict[str, float]:
    """`dev/questions_outside_glove`, and `dev/em_outside_glove` and `dev/f1_outside_glove`
    (percent): how many questions are those of `outside_vectors`, `known` being GloVe's words, and
    the scores of the answers to them; nothing where there are no such questions."""
    outside = outside_vectors(split, known)
    if not outside.any():
        return {}
    scores = {f"dev/{name}_outside_glove": mean(answers[name], outside) for name in ("em", "f1")}
    return {"dev/questions_outside_glove": float(outside.sum()), **scores}
