"""The explorer on this machine's own address: pages from the package, data made when asked for."""

from __future__ import annotations

import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import TYPE_CHECKING, Any, final
from urllib.parse import unquote

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


KEPT_BYTES = 64 * 2**20
"""Payloads are kept up to so many bytes, those made last."""


@final
class Scripts:
    """Payloads as scripts, made one at a time, once, and kept: what they read has one reader."""

    def __init__(self, payloads: Mapping[str, Callable[[], Any]]) -> None:
        self.making = Lock()
        self._payloads = payloads
        self._kept: dict[str, bytes] = {}

    def get(self, name: str) -> bytes | None:
        """The script of this name; None if there is none."""
        kept = self._kept.get(name)  # what is there need not wait for what is being made
        if kept is not None or name not in self._payloads:
            return kept
        with self.making:
            if name not in self._kept:
                self._kept[name] = script(name, self._payloads[name]())
            made = self._kept[name]
            while sum(map(len, self._kept.values())) > KEPT_BYTES and len(self._kept) > 1:
                del self._kept[next(iter(self._kept))]
        return made


@final
class Explorer(ThreadingHTTPServer):
    """A thread a client, so that none waits for another; clients that leave are no errors."""

    def __init__(self, scripts: Scripts, port: int) -> None:
        self.scripts, self.pages = scripts, static_files()
        super().__init__((HOST, port), Handler)

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """Where a path leads, and what is there."""
        place = path.removeprefix("/") or PAGE
        if place in self.pages:
            return place, self.pages[place].read_bytes()
        name = place.removeprefix("data/").removesuffix(".js")
        content = self.scripts.get(name) if place == f"data/{name}.js" else None
        return None if content is None else (place, content)

    def handle_error(self, *_: Any) -> None:
        """Say in one line what went wrong, if it was not that a client left."""
        error = sys.exception()
        if not isinstance(error, OSError):
            sys.stderr.write(f"{type(error).__name__}: {error}\n")

    def server_close(self) -> None:
        """Take no more clients; what is being made is ended before its catalogue is closed."""
        super().server_close()
        self.scripts.making.acquire()


@final
class Handler(BaseHTTPRequestHandler):
    """Answers of an explorer."""

    server: Explorer
    timeout = 20.0
    """Seconds; a client that says or takes nothing for so long is left."""

    def do_GET(self) -> None:
        """Send a page or a payload."""
        if self.headers.get("Host", "").rpartition(":")[0] not in _NAMES:
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)  # a stranger's page, by its name
            return
        try:
            found = self.server.answer(unquote(self.path.partition("?")[0]))
        except (OSError, ValueError) as error:  # a catalogue that was damaged meanwhile
            self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=str(error))
            return
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


def server(payloads: Mapping[str, Callable[[], Any]], port: int = 0) -> Explorer:
    """A server of the explorer on 127.0.0.1; port 0 takes a free one.

    Nothing is read from disk but the package's own pages, and no name but the payloads' is served.
    Raises OSError if the port is taken.
    """
    return Explorer(Scripts(payloads), port)
