"""The card of a registered model: its description, training data, scores and limits."""

from collections.abc import Mapping

DIGESTS = ("train.digest", "dev.digest", "vocabulary.digest", "vectors.digest")
SCORES = {
    "dev/em": "EM",
    "dev/f1": "F1",
    "dev/nll": "NLL, nats",
    "dev/avna": "AvNA",
    "dev/ece": "ECE, points",
}
LIMITS = """\
It finds an answer that stands word for word in the given text, or says that there is none where
its training data held such questions; it knows nothing else, and answers of other languages,
domains or kinds than its training data's are likely to be wrong. A high score is no promise: the
`score` is how sure the model is, not how right. Data may carry biases of their authors."""


THRESHOLD = """\
"No answer" is given where it is more probable than every span (argmax). On the validation split F1
is best where it has to exceed the best span by {threshold} nats: load the model with
`mlflow.pyfunc.load_model(uri, model_config={{"no_answer": "threshold"}})` to answer so."""


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
        "Takes `question` and `context`; gives `answer`, its `start` and `end` in the context's "
        "characters (-1 for no answer), `score` and `no_answer_probability`.",
        "",
        "## Data",
        f"Dataset `{dataset}`; digests of what was read:",
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
