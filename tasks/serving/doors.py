"""The app of a replica: the doors of MLflow's scoring server, Hugging Face's task and the Open
Inference Protocol, and the page."""

import logging
from collections.abc import Sequence
from importlib.metadata import version as installed_version
from pathlib import Path
from queue import Full
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from tasks.inference.predictor import AnswerRow
from tasks.serving import metrics
from tasks.serving.feedback import keep
from tasks.serving.guard import Guard
from tasks.serving.replica import LONGEST_WAIT, Replica
from tasks.serving.schemas import (
    LONGEST_TEXT,
    OUTPUTS,
    Feedback,
    Inference,
    Invocations,
    Parameters,
    Question,
    QuestionAnswering,
)
from tasks.serving.served_model import ModelRequest, ServedModel

PAGE = Path(__file__).with_name("page")
PAGE_ANSWERS = 5
NO_QUESTION = (
    f"Expected an object with the texts question and context, of up to {LONGEST_TEXT:,} characters "
    "each."
)
BUSY = f"The server is busy, or needed more than {LONGEST_WAIT:g} seconds. Try again later."

router = APIRouter()
logger = logging.getLogger(__name__)


def create_app(replica: Replica, token: str | None, feedback: Path | None) -> Guard:
    """The app of a replica. Requests need the token, if there is one. Feedback is kept in the
    folder `feedback`."""
    app = FastAPI(
        title="bidaflow",
        description="Answers questions from texts. Each answer names the version that gave it.",
        docs_url=None,  # these pages load scripts from elsewhere
        redoc_url=None,
        exception_handlers={
            RequestValidationError: _invalid,
            HTTPException: _refused,
            Full: _busy,
            TimeoutError: _busy,
        },
    )
    app.state.replica, app.state.feedback = replica, feedback
    app.include_router(router)
    return Guard(app, token)


async def _invalid(request: Request, error: Any) -> JSONResponse:
    """The first problem of an invalid request, without its texts."""
    detail = error.errors()[0]
    place = ".".join(str(part)[:50] for part in detail["loc"][1:])
    reason = detail["msg"].removeprefix("Value error, ").rstrip(".")
    if detail["type"] == "json_invalid":
        place, reason = "body", f"not valid JSON ({detail['ctx']['error']})"
    return JSONResponse({"error": f"Invalid request: {place or 'body'}: {reason}."}, 422)


async def _refused(request: Request, error: Any) -> JSONResponse:
    sentence = f"{error.detail.rstrip('.')}."
    return JSONResponse({"error": sentence}, error.status_code, error.headers)


async def _busy(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": BUSY}, 503, {"retry-after": "1"})


async def _answer(
    request: Request, response: Response, items: Sequence[Any], *wishes: Any
) -> tuple[ServedModel, list[list[AnswerRow]]]:
    """The likeliest answers to each item, and the model that gave them, which the response then
    names. Items that can't be answered get an error. `wishes` are those of a `ModelRequest`."""
    is_question = [isinstance(item, Question) for item in items]
    pairs = [
        (item.question, item.context) if valid else ("", "")
        for item, valid in zip(items, is_question, strict=True)
    ]
    model, answers = await request.app.state.replica.answer(ModelRequest(pairs, *wishes))
    for (row, *_), valid in zip(answers, is_question, strict=True):
        if not valid:
            row["error"] = NO_QUESTION
    response.headers["x-model-version"] = f"{model.name}/{model.version}"
    return model, answers


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
async def invocations(body: Invocations, request: Request, response: Response) -> Any:
    """Answer as MLflow's scoring server does."""
    _, answers = await _answer(request, response, body.items())
    return {"predictions": [row for row, *_ in answers]}


@router.post("/")
async def question_answering(body: QuestionAnswering, request: Request, response: Response) -> Any:
    """Answer as Hugging Face's task question-answering does: with a list if `inputs` is one or
    `top_k` is above 1. Answers are "" only with `handle_impossible_answer`."""
    wanted = body.parameters or Parameters()
    items = [body.inputs] if isinstance(body.inputs, Question) else body.inputs
    wishes = wanted.top_k, wanted.max_answer_len, wanted.handle_impossible_answer
    _, answers = await _answer(request, response, items, *wishes)
    results = [[_hugging_face(row) for row in rows] for rows in answers]
    replies = results if wanted.top_k > 1 else [first for first, *_ in results]
    if items is body.inputs:
        return replies
    _require_answer(answers[0])
    return replies[0]


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
def model_metadata(request: Request, name: str, version: str | None = None) -> dict[str, Any]:
    """The tensors of the model, if it answers."""
    model = _require_name(request.app.state.replica.model, name, version)
    return {
        "name": model.name,
        "versions": [model.version],
        "platform": "bidaflow",
        "ready": True,
        "inputs": _tensors(dict.fromkeys(("question", "context"), "BYTES")),
        "outputs": _tensors(OUTPUTS),
    }


def _tensors(types: dict[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "datatype": kind, "shape": [-1]} for name, kind in types.items()]


@router.post("/v2/models/{name}/infer")
@router.post("/v2/models/{name}/versions/{version}/infer")
async def infer(
    body: Inference, request: Request, response: Response, name: str, version: str | None = None
) -> dict[str, Any]:
    """Answer as the Open Inference Protocol says, one question per element of the tensors."""
    model, answers = await _answer(request, response, body.items())
    _require_name(model, name, version)
    rows: list[dict[str, Any]] = [{**row} for row, *_ in answers]
    outputs = [
        {"name": n, "datatype": OUTPUTS[n], "shape": [len(rows)], "data": [row[n] for row in rows]}
        for n in [output.name for output in body.outputs] or OUTPUTS
    ]
    named = {"model_name": model.name, "model_version": model.version}
    return {**named, "id": body.id, "outputs": outputs}


def _require_name(model: ServedModel, name: str, version: str | None) -> ServedModel:
    if name != model.name or version not in (None, model.version):
        raise HTTPException(404, f"This server has only {model.name} version {model.version}.")
    return model


@router.post("/explain")
async def explain(body: Question, request: Request, response: Response) -> dict[str, Any]:
    """The likeliest answers, what the model attended to, and whether feedback is kept, for the
    page."""
    model, [answers] = await _answer(request, response, [body], PAGE_ANSWERS)
    _require_answer(answers)
    attention = await run_in_threadpool(model.attention, body.question, body.context, answers[0])
    named = {"model": model.name, "version": model.version}
    keeps_feedback = request.app.state.feedback is not None
    return {**named, "answers": answers, "attention": attention, "keeps_feedback": keeps_feedback}


@router.post("/feedback", status_code=201)
def give_feedback(body: Feedback, request: Request) -> dict[str, bool]:
    """Keep the right answer to a question, to train on."""
    if (folder := request.app.state.feedback) is None:
        raise HTTPException(404, "This server keeps no feedback. Start it with --feedback FOLDER.")
    try:
        keep(folder, body)
    except OSError as error:
        logger.error("Feedback can't be kept: %s.", error)
        raise HTTPException(507, "Feedback can't be kept now: its file is full.") from error
    return {"kept": True}
