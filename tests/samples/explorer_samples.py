"""A small catalogue of the user's own, and what the explorer's payloads say, read back."""

from __future__ import annotations

import base64
import json
import re
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ocs_codesign.faces.web.serve import server
from ocs_codesign.faces.web.site import payloads
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.catalogue.entry import Provenance
from ocs_codesign.search.catalogue.store import Catalogue

QUESTIONS = [
    Question(nodes, degree, both)
    for degree, both in ((1, False), (2, False), (2, True), (4, False), (4, True))
    for nodes in (7, 8, 12, 16)
]


def small_catalogue(place: Path) -> Path:
    """Some questions of the shipped catalogue, in a file of its own."""
    path = place / "mine.sqlite"
    with Catalogue() as shipped, Catalogue(path, writable=True) as mine:
        for question in QUESTIONS:
            mine.record(question, shipped.entries(question), Provenance("copy", "1", 0, 0.0))
    return path


def unpacked(script: bytes) -> tuple[str, object]:
    """The name and the value of a payload's script."""
    found = re.fullmatch(r'explorer\.receive\("([^"]+)", "([^"]+)"\);\n', script.decode())
    assert found is not None
    packed = base64.b64decode(found[2], validate=True)
    return found[1], json.loads(zlib.decompress(packed, wbits=-15))


@contextmanager
def served(place: Path) -> Iterator[str]:
    """The address of the small catalogue's explorer, served from a thread of its own."""
    ready, found = threading.Event(), []

    def run() -> None:
        with (
            Catalogue(small_catalogue(place)) as own,
            server(payloads(own, "own", own.questions(), 12)) as serving,
        ):
            found.append(serving)
            ready.set()
            serving.serve_forever(poll_interval=0.02)

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(600)
    try:
        yield f"http://127.0.0.1:{found[0].server_port}"
    finally:
        found[0].shutdown()
        thread.join()
