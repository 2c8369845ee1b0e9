"""The card of a registered model: its description, training data, scores and limits."""

from collections.abc import Mapping

DIGESTS = ("train.digest", "dev.digest", "vocabulary.digest", "vectors.digest")
SCORES = {
    "dev/em": "EM",
    "dev/f1": "F1",
    "dev/nll": "NLL (nats)",
    "dev/avna": "AvNA",
    "dev/ece": "ECE (points)",
}
LIMITS = """\
The model is extractive: an answer is a span of the given context, or no answer if the training
data had unanswerable questions. It has no other knowledge. Answers in languages, domains or
question types that the training data lacks are likely to be wrong. `score` is the model's
confidence, not the probability that the answer is correct. The model may reproduce biases of its
training data."""


THRESHOLD = """\
By default (argmax), the model predicts "no answer" if it is more probable than every span.
Validation F1 is highest if the log-probability of "no answer" must exceed the best span's by
{threshold} nats. To use this threshold, load the model with
`mlflow.pyfunc.load_model(uri, model_config={{"no_answer": "threshold"}})`."""


def model_card(
    name: str, params: Mapping[str, str], tags: Mapping[str, str], metrics: Mapping[str, float]
) -> str:
    """The card in Markdown, from the parameters, tags and metrics of the model's run."""
    dataset = tags.get("dataset", "unknown")
    digests = [f"- {key.partition('.')[0]}: `{tags[key]}`" for key in DIGESTS if key in tags]
    threshold = tags.get("threshold")
    scores = _score_table(metrics, with_threshold=threshold is not None)
    settings = ", ".join(f"{key} {value}" for key, value in sorted(params.items()))
    lines = [
        f"# {name}: {tags.get('variant', 'a variant')} of BiDAF, trained on {dataset}",
        "",
        "Input: `question` and `context`. Output: `answer`, its `start` and `end` (character "
        "offsets in the context, -1 for no answer), `score` (log-probability) and "
        "`no_answer_probability`.",
        "",
        "## Data",
        f"Dataset `{dataset}`. Digests of the input data:",
        "",
        *digests,
        "",
        "## Scores on all dev questions",
        *scores,
        "",
        *([THRESHOLD.format(threshold=threshold), ""] if threshold is not None else []),
        "## Limits",
        LIMITS,
        "",
        "## Settings",
        settings,
    ]
    commit = tags.get("git.commit")
    return "\n".join([*lines, *(["", f"Code: `{commit}`"] if commit else [])]) + "\n"


def _score_table(metrics: Mapping[str, float], with_threshold: bool) -> list[str]:
    """A table of the last epoch's scores, optionally with a column of those at the threshold."""
    columns = {"last epoch": ""} | ({"at the threshold": "_at_threshold"} if with_threshold else {})
    rows = [
        [text, *(_digits(metrics.get(f"{key}{suffix}")) for suffix in columns.values())]
        for key, text in SCORES.items()
        if key in metrics
    ]
    lines = [["", *columns], ["---"] * (len(columns) + 1), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
