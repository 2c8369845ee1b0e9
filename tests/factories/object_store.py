"""An S3 server of the test's process, which can stop answering for a while."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from pyarrow.fs import FileSelector, FileType, S3FileSystem
from werkzeug.serving import make_server

BUCKET = "results"


class ObjectStore:
    """The server, with a bucket."""

    def __init__(self) -> None:
        self.requests: list[str] = []  # method and path of each
        self.silent_until = 0.0
        self.serve = DomainDispatcherApplication(create_backend_app)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.server = make_server("127.0.0.1", 0, self.respond, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.port}"
        self.variables = {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def respond(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        self.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        if time.monotonic() < self.silent_until:
            start("503 Service Unavailable", [("Content-Length", "0")])
            return [b""]
        return self.serve(environ, start)  # type: ignore[no-any-return, no-untyped-call]

    def fail_for(self, seconds: float) -> None:
        """Answer all requests of the next seconds with 503."""
        self.silent_until = time.monotonic() + seconds

    @property
    def files(self) -> S3FileSystem:
        return S3FileSystem(
            access_key="key",
            secret_key="secret",
            region="us-east-1",
            endpoint_override=self.url,
            allow_bucket_creation=True,
        )

    def names(self, folder: str = "") -> list[str]:
        """The paths of all objects in a folder of the bucket, sorted."""
        selector = FileSelector(f"{BUCKET}/{folder}", recursive=True, allow_not_found=True)
        infos = self.files.get_file_info(selector)
        paths = (info.path for info in infos if info.type == FileType.File)
        return sorted(path.removeprefix(f"{BUCKET}/") for path in paths)

    def write(self, name: str, content: bytes) -> None:
        with self.files.open_output_stream(f"{BUCKET}/{name}") as file:
            file.write(content)


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Run the server during the block."""
    store = ObjectStore()
    threading.Thread(target=store.server.serve_forever, daemon=True).start()
    try:
        store.files.create_dir(BUCKET)
        yield store
    finally:
        store.server.shutdown()
