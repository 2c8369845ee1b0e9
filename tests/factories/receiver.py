"""A receiver of notifications on loopback, in place of a chat."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.factories.http_server import http_server


@dataclass
class Receiver:
    """The texts of the messages that arrived at `url`."""

    url: str
    texts: list[str] = field(default_factory=list)

    def text_with(self, words: str) -> str | None:
        """The first message that contains these words."""
        return next((text for text in self.texts if words in text), None)


@contextmanager
def receiving_notifications() -> Iterator[Receiver]:
    """Receive JSON bodies with a field `text` within the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.texts.append(json.loads(body)["text"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Suppress the request log."""

    with http_server(Handler) as url:
        receiver = Receiver(f"{url}/")
        yield receiver
