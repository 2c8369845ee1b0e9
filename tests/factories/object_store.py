"""An S3 server of the test's process, which can stop answering for a while."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import Any

import boto3
from moto import settings as moto_settings
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from pyarrow.fs import FileSelector, FileType, S3FileSystem
from werkzeug.serving import make_server

from infra.settings import settings

BUCKET = "results"
POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}


class ObjectStore:
    """The server, with a bucket."""

    def __init__(self) -> None:
        self.requests: list[str] = []  # method and path of each
        self.silent_until = 0.0
        self.failures_left = 0
        self.serve = DomainDispatcherApplication(create_backend_app)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.server = make_server("127.0.0.1", 0, self.respond, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.port}"
        self.key, self.secret = _new_user()
        self.variables = {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def respond(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        self.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}")
        if self._fails():
            start("503 Service Unavailable", [("Content-Length", "0")])
            return [b""]
        return self.serve(environ, start)  # type: ignore[no-any-return, no-untyped-call]

    def fail_for(self, seconds: float) -> None:
        """Answer all requests of the next seconds with 503."""
        self.silent_until = time.monotonic() + seconds

    def fail_next(self, requests: int) -> None:
        """Answer the next requests with 503."""
        self.failures_left = requests

    def _fails(self) -> bool:
        if self.failures_left:
            self.failures_left -= 1
            return True
        return time.monotonic() < self.silent_until

    @property
    def root(self) -> str:
        """The folder in the bucket that is the storage root."""
        return str(settings().address).removeprefix(f"s3://{BUCKET}/")

    @property
    def files(self) -> S3FileSystem:
        return S3FileSystem(
            access_key=self.key,
            secret_key=self.secret,
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

    def read(self, name: str) -> bytes:
        """The content of an object of the bucket."""
        with self.files.open_input_stream(f"{BUCKET}/{name}") as file:
            return bytes(file.read())

    def write(self, name: str, content: bytes) -> None:
        with self.files.open_output_stream(f"{BUCKET}/{name}") as file:
            file.write(content)

    def put(self, key: str, content: bytes) -> None:
        """Write an object under a key that pyarrow would not write, such as one with `..`."""
        client = boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            region_name="us-east-1",
        )
        client.put_object(Bucket=BUCKET, Key=key, Body=content)


def _new_user() -> tuple[str, str]:
    """Key and secret of a user who may do everything in S3."""
    name, iam = token_hex(4), iam_backends[DEFAULT_ACCOUNT_ID]["global"]
    iam.create_user("us-east-1", name)
    iam.put_user_policy(name, "all", json.dumps(POLICY))
    key = iam.create_access_key(name)
    return str(key.access_key_id), str(key.secret_access_key)


@contextmanager
def object_store(refuses_strangers: bool = False) -> Iterator[ObjectStore]:
    """Run the server during the block; it checks credentials only if it refuses strangers."""
    store = ObjectStore()
    threading.Thread(target=store.server.serve_forever, daemon=True).start()
    checked_from = moto_settings.INITIAL_NO_AUTH_ACTION_COUNT
    try:
        store.files.create_dir(BUCKET)
        if refuses_strangers:
            moto_settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
        yield store
    finally:
        moto_settings.INITIAL_NO_AUTH_ACTION_COUNT = checked_from
        store.server.shutdown()
