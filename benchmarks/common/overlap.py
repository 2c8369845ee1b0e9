"""How easily the words that question and context share tell answerable questions from others."""

from collections.abc import Sequence

import numpy as np

from models.arrays import BoolArray, FloatArray
from tasks.data.text_spans import Text, content_stems
from tasks.evaluation.metrics import no_answer_auc

# Strength of the L2 penalty on the standardised weights, and steps of Newton's method.
PENALTY, STEPS = 1.0, 20


def overlap_features(question: Text, context: Text) -> list[float]:
    """What question and context share: words, pairs of words, content words (anywhere, and in the
    best sentence), and capitalised words and numbers; how many content words are missing, and the
    context's length."""
    words, known = question.words, set(context.words)
    pairs, known_pairs = (
        list(zip(t.words, t.words[1:], strict=False)) for t in (question, context)
    )
    content = content_stems(words)
    stems = set[str]().union(*context.sentence_stems)
    best = max((len(content & sentence) for sentence in context.sentence_stems), default=0)
    marked = {w for w, t in zip(words[1:], question.tokens[1:], strict=True) if not t[0].islower()}
    marked = {word for word in marked if word[0].isalnum()}
    return [
        _share(sum(word in known for word in words), len(words)),
        _share(len(set(pairs).intersection(known_pairs)), len(set(pairs))),
        _share(len(content & stems), len(content)),
        _share(best, len(content)),
        _share(len(marked & known), len(marked)),
        float(len(content - stems)),
        float(np.log1p(len(context.words))),
    ]


def _share(part: int, total: int) -> float:
    return part / total if total else 1.0


def classifier_auc(features: FloatArray, answerable: BoolArray, test: BoolArray) -> float | None:
    """The area under the ROC curve of a logistic regression on the test rows.

    It is trained on the others. `features` is (n, k), and the masks are (n,). 0.5 is chance; at 1,
    the classifier recognizes all unanswerable questions. None unless both parts have questions of
    both kinds.
    """
    if any(len(set(answerable[part])) < 2 for part in (test, ~test)):
        return None
    mean, deviation = features[~test].mean(axis=0), features[~test].std(axis=0)
    scaled = (features - mean) / np.maximum(deviation, 1e-9)
    inputs = np.column_stack([scaled, np.ones(len(scaled))])
    weights = _logistic_regression(inputs[~test], (~answerable[~test]).astype(float))
    return no_answer_auc(inputs[test] @ weights, answerable[test])


def _logistic_regression(inputs: FloatArray, targets: FloatArray) -> FloatArray:
    """The weights (k,) of the penalised maximum likelihood, by Newton's method."""
    weights = np.zeros(inputs.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        gradient = inputs.T @ (p - targets) + PENALTY * weights
        curvature = (inputs * (p * (1 - p))[:, None]).T @ inputs + PENALTY * np.eye(len(weights))
        weights = weights - np.linalg.solve(curvature, gradient)
    return weights


def feature_rows(pairs: Sequence[tuple[str, str]]) -> FloatArray:
    """The features of (question, context) pairs, (n, k)."""
    contexts = {context: Text(context) for _, context in pairs}
    return np.array([overlap_features(Text(q), contexts[context]) for q, context in pairs])
