"""A server on loopback that serves one file and produces the requested faults."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.factories.http_server import http_server


@dataclass
class Served:
    """The served file, the faults of the first responses, and the requests received."""

    content: bytes
    tag: str | None = '"1"'
    ranges: bool = True
    faults: list[str] = field(default_factory=list)
    """One per request: "cut N", "stall N", "slow", "shift", "status N", "to ADDRESS"."""
    requests: list[dict[str, str]] = field(default_factory=list)
    sent: int = 0
    url: str = ""


def handler_of(served: Served) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests.append({"path": self.path, **dict(self.headers)})
            kind, _, value = (served.faults.pop(0) if served.faults else "").partition(" ")
            if kind == "status":
                self.send_response(int(value))
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif kind == "to":
                self.send_response(302)
                self.send_header("Location", value)
                self.end_headers()
            else:
                self.send_content(kind, int(value or 0))

        def send_content(self, kind: str, limit: int) -> None:
            begin = self.first_byte()
            if begin > 0 and begin >= len(served.content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(served.content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = served.content[begin:]
            self.send_response(206 if begin else 200)
            if begin:
                first = begin + 7 if kind == "shift" else begin
                last = len(served.content) - 1
                self.send_header("Content-Range", f"bytes {first}-{last}/{last + 1}")
            if served.tag:
                self.send_header("ETag", served.tag)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.write_body(body[:limit] if kind in ("cut", "stall") else body, kind)
            if kind == "stall":
                time.sleep(60)
            self.close_connection = True

        def write_body(self, body: bytes, kind: str) -> None:
            step = 1000 if kind == "slow" else len(body) or 1
            for start in range(0, len(body), step):
                # Count before writing: the client may read the last bytes, and its test may end,
                # before this thread runs again.
                served.sent += len(body[start : start + step])
                self.wfile.write(body[start : start + step])
                if kind == "slow":
                    time.sleep(0.05)

        def first_byte(self) -> int:
            requested = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            same = self.headers.get("If-Range") in (None, served.tag)
            return int(requested[1]) if requested and same and served.ranges else 0

        def log_message(self, *args: object) -> None:
            """Suppress the request log."""

    return Handler


@contextmanager
def serving(served: Served) -> Iterator[Served]:
    """Serve until the block ends; `served.url` is the file's URL."""
    with http_server(handler_of(served)) as url:
        served.url = f"{url}/made.json"
        yield served
