"""The explorer on this machine's own address: pages from the package, data made when asked for."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any, final
from urllib.parse import unquote, urlsplit

from ocs_codesign.faces.web.site import PAGE, script, static_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


HOST = "127.0.0.1"
_NAMES = ("127.0.0.1", "localhost")
_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
_SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' "
    "'unsafe-inline'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def server(payloads: Mapping[str, Callable[[], Any]], port: int = 0) -> HTTPServer:
    """A server of the explorer on 127.0.0.1, one request at a time; port 0 takes a free one.

    Nothing is read from disk but the package's own pages, and no name but the payloads' is served.
    Raises OSError if the port is taken.
    """
    pages = static_files()

    def answer(path: str) -> tuple[str, bytes] | None:
        place = path.removeprefix("/") or PAGE
        if place in pages:
            return place, pages[place].read_bytes()
        name = place.removeprefix("data/").removesuffix(".js")
        if place == f"data/{name}.js" and name in payloads:
            return place, script(name, payloads[name]())
        return None

    @final
    class Handler(BaseHTTPRequestHandler):
        """Answers of this explorer."""

        def do_GET(self) -> None:
            """Send a page or a payload."""
            if self.headers.get("Host", "").rpartition(":")[0] not in _NAMES:
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST)  # a stranger's page, by its name
                return
            found = answer(unquote(urlsplit(self.path).path))
            if found is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            place, content = found
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", _KINDS[place.rpartition(".")[2]])
            self.send_header("Content-Length", str(len(content)))
            for name, value in _SAFE.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing of every request."""

    return HTTPServer((HOST, port), Handler)
