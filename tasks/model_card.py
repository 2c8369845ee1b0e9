"""A registered model's card: what it is, what it was trained on, its scores and its limits."""

from collections.abc import Mapping

DIGESTS = ("train.digest", "dev.digest", "vocabulary.digest", "vectors.digest")
SCORES = {"dev/em": "EM", "dev/f1": "F1", "dev/nll": "NLL, nats", "dev/avna": "AvNA"}
LIMITS = """\
It finds an answer that stands word for word in the given text, or says that there is none where
its training data held such questions; it knows nothing else, and answers of other languages,
domains or kinds than its training data's are likely to be wrong. A high score is no promise: the
`score` is how sure the model is, not how right. Data may carry biases of their authors."""


def model_card(
    name: str, params: Mapping[str, str], tags: Mapping[str, str], metrics: Mapping[str, float]
) -> str:
    """The card in Markdown, made of what the model's run was given and has measured."""
    dataset = tags.get("dataset", "unknown")
    digests = [f"- {key.partition('.')[0]}: `{tags[key]}`" for key in DIGESTS if key in tags]
    scores = [f"| {text} | {metrics[key]:.2f} |" for key, text in SCORES.items() if key in metrics]
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
        "| | last epoch |",
        "|---|---|",
        *scores,
        "",
        "## Limits",
        LIMITS,
        "",
        "## Settings",
        settings,
    ]
    commit = tags.get("git.commit")
    return "\n".join([*lines, *(["", f"Code: `{commit}`"] if commit else [])]) + "\n"
