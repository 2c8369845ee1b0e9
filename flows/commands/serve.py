"""Answer questions over HTTP, and on a page, with a dataset's champion."""

import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from cyclopts import Parameter

from infra.errors import UserError, first_line
from infra.settings import LOOPBACK
from tasks.datasets.paths import dataset_name

# The modules of tasks.serving are imported when PROMETHEUS_MULTIPROC_DIR is set, which
# prometheus-client reads at its import.

SHORTEST_TOKEN = 16


def serve(
    dataset: Annotated[str, Parameter(help="Dataset: a name or path, as for retrain.")] = "tiny",
    /,
    *,
    host: Annotated[
        str, Parameter(help="Address to listen at. Beyond this machine, --token-file is required.")
    ] = LOOPBACK,
    port: Annotated[int, Parameter(help="Port to listen at.")] = 8000,
    token_file: Annotated[
        Path | None,
        Parameter(help=f"File with the token that requests need, {SHORTEST_TOKEN} characters."),
    ] = None,
    feedback: Annotated[
        Path | None,
        Parameter(help="Folder that gets feedback.jsonl, to train on with --data.mix."),
    ] = None,
    replicas: Annotated[
        int, Parameter(help="Number of processes that answer, which share the CPUs.")
    ] = 1,
) -> None:
    """Answer questions with the champion of a dataset, over HTTP and on a page.

    A new champion takes over without a restart. Ctrl+C ends the server.
    """
    if replicas < 1:
        raise UserError(f"--replicas must be at least 1, but is {replicas}.")
    if feedback is not None:
        _require_writable(feedback)
    with TemporaryDirectory(prefix="bidaflow-serve-") as temporary:
        versions, metrics = (Path(temporary, name) for name in ("versions", "metrics"))
        versions.mkdir()
        metrics.mkdir()
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(metrics)
        from tasks.serving.server import run_server

        token = _token(token_file, host)
        name = f"bidaf-{dataset_name(dataset)}"
        run_server(name, (host, port), replicas, token, feedback, versions)


def _require_writable(folder: Path) -> None:
    """Create the folder if it is missing. Raises UserError if it can't be written to."""
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        raise UserError(f"--feedback {folder} is not a folder that can be written to.")


def _token(file: Path | None, host: str) -> str | None:
    """The token of the file; None if none is required.

    Raises:
        UserError: it is required or can't be read, or is too short.
    """
    from tasks.serving.guard import is_loopback

    if file is None:
        if is_loopback(host):
            return None
        raise UserError(
            f"--host {host} can be reached from other machines. Name a file with a token by "
            "--token-file, or omit --host."
        )
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise UserError(f"Can't read --token-file {file}: {first_line(error)}.") from error
    if len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()):
        raise UserError(
            f"--token-file {file} must have one line of at least {SHORTEST_TOKEN} ASCII "
            "characters, such as that of: openssl rand -hex 32"
        )
    return token
