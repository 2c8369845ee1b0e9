"""The FastAPI app of one replica."""

from pathlib import Path
from queue import Full
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tasks.serving.doors import router
from tasks.serving.guard import Guard
from tasks.serving.replica import LONGEST_WAIT, Replica

BUSY = f"The server is busy, or needed more than {LONGEST_WAIT:g} seconds. Try again later."
RETRY_SECONDS = "1"


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
    app.state.replica = replica
    app.state.feedback = feedback
    app.include_router(router)
    return Guard(app, token)


async def _invalid(request: Request, error: Any) -> JSONResponse:
    """The first problem of an invalid request, without its texts."""
    detail = error.errors()[0]
    place = ".".join(str(part)[:50] for part in detail["loc"][1:])
    reason = detail["msg"].removeprefix("Value error, ").rstrip(".")
    if detail["type"] == "json_invalid":
        place, reason = "body", f"not valid JSON ({detail['ctx']['error']})"
    sentence = f"Invalid request: {place or 'body'}: {reason}."
    return JSONResponse({"error": sentence}, 422)


async def _refused(request: Request, error: Any) -> JSONResponse:
    sentence = f"{error.detail.rstrip('.')}."
    return JSONResponse({"error": sentence}, error.status_code, error.headers)


async def _busy(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": BUSY}, 503, {"retry-after": RETRY_SECONDS})
