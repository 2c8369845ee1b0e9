"""Logs models to MLflow with their inference code and a model card, and registers them."""

import json
import logging
import sys
import threading
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from jinja2 import Environment, StrictUndefined

from infra.atomic_files import link_to_equal
from infra.settings import CHECKOUT, settings
from tasks.tracking.client import ignoring, mlflow_client

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

# MLflow is imported locally, because it takes a second to load.

DESCRIPTION_LENGTH = 5000  # of a version; PostgreSQL refuses a longer one
INFERENCE_PACKAGES = ("mlflow", "numpy", "pyarrow", "pydantic", "safetensors", "torch")

# Trainings that run in parallel may end together, but MLflow keeps the tracking URI and the model
# that it loads for its checks in global variables.
_LOGGING = threading.Lock()


def log_model(run_id: str, model_folder: Path, registered_name: str, step: int) -> str:
    """Log a model folder with its inference code, register it as a new version, and return its URI.

    `step` is the optimisation step of the weights; the run's metrics at that step become the
    model's. If the run already has a version, that version's URI is returned.
    """
    import mlflow.pyfunc
    from mlflow.models import Model

    client = mlflow_client()
    versions = client.search_model_versions(f"name = '{registered_name}' and run_id = '{run_id}'")
    if versions:
        return f"models:/{registered_name}/{versions[0].version}"
    run = client.get_run(run_id)
    # Created here, because `Model.log` would use MLflow's current experiment.
    model = client.create_logged_model(
        run.info.experiment_id, "answerer", source_run_id=run_id, params=run.data.params
    )
    # It warns that the run has a parameter of `model_config` already, `expected_no_answer`; but the
    # training's value is right.
    logging.getLogger("mlflow.models.model").setLevel(logging.ERROR)
    sys.dont_write_bytecode = True  # MLflow checks the model in the folder that it uploads
    with _LOGGING:
        mlflow.set_tracking_uri(settings().tracking_uri)  # `Model.log` takes no URI
        Model.log(
            artifact_path=None,
            flavor=mlflow.pyfunc,
            model_id=model.model_id,
            run_id=run_id,
            step=step,
            python_model=str(CHECKOUT / "tasks" / "inference" / "pyfunc_model.py"),
            artifacts={"model": str(model_folder)},
            model_config={"no_answer": "argmax", "expected_no_answer": None},
            code_paths=[str(CHECKOUT / package) for package in ("infra", "models", "tasks")],
            # Without local suffixes such as "+cpu", which PyPI lacks.
            pip_requirements=[f"{p}=={version(p).partition('+')[0]}" for p in INFERENCE_PACKAGES],
            input_example=[{"question": "Who answers?", "context": "The model answers."}],
        )
    _link_files(model.artifact_location, model_folder)
    return _register(client, registered_name, run, model.model_id)


def _link_files(location: str, model_folder: Path) -> None:
    """Make the logged files hard links to those of the model folder, if MLflow's store is a local
    folder: the word vectors alone take tens of megabytes."""
    store = urlsplit(location)
    if store.scheme in ("", "file"):
        logged = Path(unquote(store.path)) / "artifacts" / model_folder.name
        for file in filter(Path.is_file, model_folder.rglob("*")):
            link_to_equal(logged / file.relative_to(model_folder), [file])


def _register(client: "MlflowClient", name: str, run: "Run", model_id: str) -> str:
    with ignoring("RESOURCE_ALREADY_EXISTS"):
        client.create_registered_model(name)
    card = model_card(name, run.data.params, run.data.tags, run.data.metrics)
    tags = version_tags(run.data.tags, run.data.metrics)
    created = client.create_model_version(
        name,
        f"models:/{model_id}",
        run.info.run_id,
        tags=tags,
        model_id=model_id,
        description=card[:DESCRIPTION_LENGTH],
    )
    client.log_text(run.info.run_id, card, "model_card.md")
    # MLflow's page of the logged model reads its registered version from this tag.
    client.set_logged_model_tags(
        model_id,
        {"mlflow.modelVersions": json.dumps([{"name": name, "version": created.version}])},
    )
    return f"models:/{name}/{created.version}"


SHOWN_TAGS = ("variant", "dataset", "git.commit", "prefect.flow_run_url", "threshold")
SHOWN_SCORES = {"dev/f1": "dev F1", "dev/em": "dev EM"}


def version_tags(tags: Mapping[str, str], metrics: Mapping[str, float]) -> dict[str, str]:
    """The tags of a version: what people look for; its run has the others.

    One tag, `digests`, has the digests of all input data as JSON.
    """
    digests = {
        key.removesuffix(".digest"): tag for key, tag in tags.items() if key.endswith(".digest")
    }
    scores = {
        title: f"{metrics[metric]:.2f}"
        for metric, title in SHOWN_SCORES.items()
        if metric in metrics
    }
    shown = {key: tags[key] for key in SHOWN_TAGS if key in tags}
    return {**shown, **scores, "digests": json.dumps(digests, sort_keys=True)}


CARD = """\
# {{ name }}: {{ tags.get("variant", "a variant") }} of BiDAF, trained on {{ dataset }}

Input: `question` and `context`. Output: `answer`, its `start` and `end` (character offsets in the \
context, -1 for no answer), its `probability`, `no_answer_probability`, and `error`: why there is \
nothing to answer (otherwise empty).

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
`mlflow.pyfunc.load_model(uri, model_config={"no_answer": "threshold"})`. If you expect another
share of unanswerable questions, say which: `{"no_answer": "threshold", "expected_no_answer": 0.3}`.

{% endif %}
## Limits
The model is extractive: an answer is a span of the given context, or no answer if the training
data had unanswerable questions. It has no other knowledge. Answers in languages, domains or
question types that the training data lacks are likely to be wrong. `probability` is the model's
confidence: how often such answers are correct depends on the data. The model may reproduce biases
of its training data.

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

    It shows the model's scores and, if the run chose a threshold, those at the threshold.
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
        digests=[
            f"{part}.digest" for part in ("train", "dev", "vocabulary", "vectors", "contextual")
        ],
        scores={
            "dev/em": "EM",
            "dev/f1": "F1",
            "dev/nll": "NLL (nats)",
            "dev/avna": "AvNA",
            "dev/ece": "ECE (points)",
        },
        columns={"argmax": "", **at_threshold},
        settings=", ".join(f"{key} {value}" for key, value in sorted(params.items())),
    )
