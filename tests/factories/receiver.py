"""A receiver of notifications on loopback, in place of a chat."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


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

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = Receiver(f"http://127.0.0.1:{server.server_port}/")
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield receiver
        server.shutdown()
