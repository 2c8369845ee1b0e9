"""Serves the report pages, for `bidaflow up`.

Usage: python -m infra.services.reports_server
"""

from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

from infra.services.page_policy import HEADER, POLICY
from infra.settings import LOOPBACK, settings


class ReportsHandler(SimpleHTTPRequestHandler):
    """Serves the files of a folder. Folders without a page are not listed, and links that lead out
    of the folder are not followed."""

    def send_head(self) -> BytesIO | None:
        """As the base class, which sends the headers and returns the file.

        A page of another site whose name leads to this machine (DNS rebinding) gets nothing.
        """
        if urlsplit(f"//{self.headers['Host']}").hostname not in (LOOPBACK, "localhost"):
            self.send_error(HTTPStatus.BAD_REQUEST, "Reports are for browsers on this machine")
            return None
        if not Path(self.translate_path(self.path)).resolve().is_relative_to(self.directory):
            self.send_error(HTTPStatus.NOT_FOUND, "File not found")
            return None
        return super().send_head()  # type: ignore[return-value]

    def list_directory(self, path: object) -> None:
        """Refuse to list a folder."""
        self.send_error(HTTPStatus.NOT_FOUND, "No reports yet")

    def end_headers(self) -> None:
        """Add the policy, and make browsers ask whether a page has changed; by default they show an
        old one."""
        self.send_header(HEADER, POLICY)
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()


def main() -> None:
    """Serve until a signal ends the process."""
    folder = settings().root.resolve() / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    handler = partial(ReportsHandler, directory=str(folder))
    ThreadingHTTPServer((LOOPBACK, settings().reports_port), handler).serve_forever()


if __name__ == "__main__":
    main()
