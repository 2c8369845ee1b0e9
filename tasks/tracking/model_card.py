"""The card of a registered model: its description, training data, scores and limits."""

from collections.abc import Mapping

from jinja2 import Environment, StrictUndefined

CARD = """\
# {{ name }}: {{ tags.get("variant", "a variant") }} of BiDAF, trained on {{ dataset }}

Input: `question` and `context`. Output: `answer`, its `start` and `end` (character offsets in the \
context, -1 for no answer), `score` (log-probability) and `no_answer_probability`.

## Data
Dataset `{{ dataset }}`. Digests of the input data:

{% for key in digests if key in tags %}
- {{ key.partition(".")[0] }}: `{{ tags[key] }}`
{% endfor %}

## Scores on all dev questions
|  | {{ columns | join(" | ") }} |
| --- |{{ " --- |" * columns | length }}
{% for key, title in scores.items() if key in metrics %}
| {{ title }} |
{%- for suffix in columns.values() %}
 {{ "%.2f" % metrics[key ~ suffix] if key ~ suffix in metrics else "–" }} |
{%- endfor +%}
{% endfor %}

{% if threshold is not none %}
By default (argmax), the model predicts "no answer" if it is more probable than every span.
Validation F1 is highest if the log-probability of "no answer" must exceed the best span's by
{{ threshold }} nats. To use this threshold, load the model with
`mlflow.pyfunc.load_model(uri, model_config={"no_answer": "threshold"})`.

{% endif %}
## Limits
The model is extractive: an answer is a span of the given context, or no answer if the training
data had unanswerable questions. It has no other knowledge. Answers in languages, domains or
question types that the training data lacks are likely to be wrong. `score` is the model's
confidence, not the probability that the answer is correct. The model may reproduce biases of its
training data.

## Settings
{{ settings }}
{% if tags.get("git.commit") %}

Code: `{{ tags["git.commit"] }}`
{% endif %}
"""


def model_card(
    name: str, params: Mapping[str, str], tags: Mapping[str, str], metrics: Mapping[str, float]
) -> str:
    """The card in Markdown, from the parameters, tags and metrics of the model's run.

    It shows the last epoch's scores and, if the run chose a threshold, those at the threshold.
    """
    threshold = tags.get("threshold")
    at_threshold = {} if threshold is None else {"at the threshold": "_at_threshold"}
    jinja = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return jinja.from_string(CARD).render(
        name=name,
        tags=tags,
        metrics=metrics,
        dataset=tags.get("dataset", "unknown"),
        threshold=threshold,
        digests=("train.digest", "dev.digest", "vocabulary.digest", "vectors.digest"),
        scores={
            "dev/em": "EM",
            "dev/f1": "F1",
            "dev/nll": "NLL (nats)",
            "dev/avna": "AvNA",
            "dev/ece": "ECE (points)",
        },
        columns={"last epoch": "", **at_threshold},
        settings=", ".join(f"{key} {value}" for key, value in sorted(params.items())),
    )
