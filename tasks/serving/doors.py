"""The doors: of MLflow's scoring server, Hugging Face's task, the Open Inference Protocol, and the
page."""

import logging
from collections.abc import Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from prometheus_client import CONTENT_TYPE_LATEST

from infra.errors import UserError
from tasks.inference.predictor import AnswerRow
from tasks.serving import metrics
from tasks.serving.feedback import keep
from tasks.serving.replica import Replica
from tasks.serving.schemas import (
    Feedback,
    Inference,
    Invocations,
    Parameters,
    Question,
    QuestionAnswering,
)
from tasks.serving.served_model import ModelRequest, ServedModel, refused

PAGE = Path(__file__).with_name("page")
PAGE_ANSWERS = 5
NO_QUESTION = "Expected an object with the texts question and context."
LONGEST_TEXT = 100_000  # characters of a question or context; bounds the memory of a batch
TOO_LONG = f"The question or the context has more than {LONGEST_TEXT:,} characters. Split it."
OUTPUTS = {
    "answer": "BYTES",
    "start": "INT64",
    "end": "INT64",
    "probability": "FP64",
    "no_answer_probability": "FP64",
    "error": "BYTES",
}
"""The tensors of an answer, and their types in the Open Inference Protocol."""

router = APIRouter()
logger = logging.getLogger(__name__)


def _replica(request: Request) -> Replica:
    replica: Replica = request.app.state.replica
    return replica


Answering = Annotated[Replica, Depends(_replica)]


async def _answer(
    replica: Replica, response: Response, items: Sequence[Any], *wishes: Any
) -> tuple[ServedModel, list[list[AnswerRow]]]:
    """The likeliest answers to each item, and the model that gave them, which the response then
    names. Items that can't be answered get an error. `wishes` are those of a `ModelRequest`."""
    problems = [_problem(item) for item in items]
    valid = [item for item, problem in zip(items, problems, strict=True) if not problem]
    pairs = [(item.question, item.context) for item in valid]
    model, answers = await replica.answer(ModelRequest(pairs, *wishes))
    response.headers["x-model-version"] = f"{model.name}/{model.version}"
    given = iter(answers)
    return model, [[refused(problem)] if problem else next(given) for problem in problems]


def _problem(item: Any) -> str:
    if not isinstance(item, Question):
        return NO_QUESTION
    return TOO_LONG if max(len(item.question), len(item.context)) > LONGEST_TEXT else ""


@router.get("/", include_in_schema=False)
@router.get("/page.css", include_in_schema=False)
@router.get("/page.js", include_in_schema=False)
def page(request: Request) -> FileResponse:
    """The page, its style and its script."""
    return FileResponse(PAGE / (request.url.path.removeprefix("/") or "page.html"))


@router.get("/ping")
@router.get("/health")
@router.get("/v2/health/live")
@router.get("/v2/health/ready")
def health() -> dict[str, bool]:
    """Answers as soon as the model is loaded."""
    return {"live": True, "ready": True}


@router.get("/metrics")
def all_metrics() -> Response:
    """The metrics of all replicas, for Prometheus."""
    return Response(metrics.report(), media_type=CONTENT_TYPE_LATEST)


@router.get("/version")
def mlflow_version() -> Response:
    """The version of MLflow."""
    return Response(installed_version("mlflow"), media_type="text/plain")


@router.post("/invocations")
async def invocations(body: Invocations, replica: Answering, response: Response) -> Any:
    """Answer as MLflow's scoring server does."""
    _, answers = await _answer(replica, response, body.items())
    return {"predictions": [row for row, *_ in answers]}


@router.post("/")
async def question_answering(
    body: QuestionAnswering, replica: Answering, response: Response
) -> Any:
    """Answer as Hugging Face's task question-answering does: with a list if `inputs` is one or
    `top_k` is above 1. Answers are "" only with `handle_impossible_answer`."""
    wanted = body.parameters or Parameters()
    items = [body.inputs] if isinstance(body.inputs, Question) else body.inputs
    wishes = wanted.top_k, wanted.max_answer_len, wanted.handle_impossible_answer
    _, answers = await _answer(replica, response, items, *wishes)
    results = [[_hugging_face(row) for row in rows] for rows in answers]
    if items is body.inputs:
        return results if wanted.top_k > 1 else [answer for answer, *_ in results]
    _require_answer(answers[0])
    return results[0] if wanted.top_k > 1 else results[0][0]


def _hugging_face(row: AnswerRow) -> dict[str, Any]:
    start, end = max(row["start"], 0), max(row["end"], 0)
    answer = {"answer": row["answer"], "score": row["probability"], "start": start, "end": end}
    return {**answer, "error": row["error"]} if row["error"] else answer


def _require_answer(rows: Sequence[AnswerRow]) -> None:
    if error := rows[0]["error"]:
        raise HTTPException(422, error)


@router.get("/v2")
def server_metadata() -> dict[str, Any]:
    """The name of this server."""
    return {"name": "bidaflow", "version": installed_version("bidaflow"), "extensions": []}


@router.get("/v2/models/{name}")
@router.get("/v2/models/{name}/versions/{version}")
@router.get("/v2/models/{name}/ready")
@router.get("/v2/models/{name}/versions/{version}/ready")
def model_metadata(replica: Answering, name: str, version: str | None = None) -> dict[str, Any]:
    """The tensors of the model, if it answers."""
    model = _require_name(replica.model, name, version)
    inputs = dict.fromkeys(("question", "context"), "BYTES")
    return {
        "name": model.name,
        "versions": [model.version],
        "platform": "bidaflow",
        "ready": True,
        **{
            kind: [{"name": n, "datatype": t, "shape": [-1]} for n, t in tensors.items()]
            for kind, tensors in (("inputs", inputs), ("outputs", OUTPUTS))
        },
    }


@router.post("/v2/models/{name}/infer")
@router.post("/v2/models/{name}/versions/{version}/infer")
async def infer(
    body: Inference, replica: Answering, response: Response, name: str, version: str | None = None
) -> dict[str, Any]:
    """Answer as the Open Inference Protocol says, one question per element of the tensors."""
    _require_name(replica.model, name, version)
    wanted = [output.name for output in body.outputs] or list(OUTPUTS)
    if not OUTPUTS.keys() >= {*wanted}:
        raise HTTPException(422, f"Invalid request: outputs: choose among {', '.join(OUTPUTS)}.")
    model, answers = await _answer(replica, response, body.items())
    _require_name(model, name, version)  # a new version may have taken over
    rows: list[dict[str, Any]] = [{**row} for row, *_ in answers]
    outputs = [
        {"name": n, "datatype": OUTPUTS[n], "shape": [len(rows)], "data": [row[n] for row in rows]}
        for n in wanted
    ]
    named = {"model_name": model.name, "model_version": model.version}
    return {**named, "id": body.id, "outputs": outputs}


def _require_name(model: ServedModel, name: str, version: str | None) -> ServedModel:
    if name != model.name or version not in (None, model.version):
        raise HTTPException(404, f"This server has only {model.name} version {model.version}.")
    return model


@router.post("/explain")
async def explain(body: Question, replica: Answering, response: Response) -> dict[str, Any]:
    """The likeliest answers, and what the model attended to, for the page."""
    model, [answers] = await _answer(replica, response, [body], PAGE_ANSWERS)
    _require_answer(answers)
    attention = await run_in_threadpool(model.attention, body.question, body.context, answers[0])
    named = {"model": model.name, "version": model.version}
    return {**named, "answers": answers, "attention": attention}


@router.get("/feedback")
def keeps_feedback(request: Request) -> dict[str, bool]:
    """Whether this server keeps feedback."""
    return {"keeps": request.app.state.feedback is not None}


@router.post("/feedback", status_code=201)
def give_feedback(body: Feedback, request: Request) -> dict[str, bool]:
    """Keep the right answer to a question, to train on."""
    if (folder := request.app.state.feedback) is None:
        raise HTTPException(404, "This server keeps no feedback. Start it with --feedback FOLDER.")
    try:
        keep(folder, body)
    except UserError as error:
        raise HTTPException(422, str(error)) from error
    except OSError as error:
        logger.error("Feedback can't be kept: %s.", error)
        raise HTTPException(507, "Feedback can't be kept now: its file is full.") from error
    return {"kept": True}
