"""The data of a site: what its scripts ask for by name, made from a catalogue.

A browser that opens a page from disk may load scripts and nothing else. So every payload is a
script of one call, with its name and its JSON as compressed text; pages load it when they need it.

- ``index``: the sizes there are, and which payload has which.
- ``designs/4-any/961``: the questions of degree 4 and any links from 961 nodes on.
- ``graphs/4-any/961``: the links of the designs of one question.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ocs_codesign import __version__
from ocs_codesign.answers.explorer import answered_json, graphs_json
from ocs_codesign.graphs.text import parse
from ocs_codesign.web.questions import KAUTZ_MULTIPLE, KAUTZ_NODES, answered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ocs_codesign.question import Question
    from ocs_codesign.search.catalogue.store import Catalogue

    Chunks = dict[str, list[list[Question]]]

INDEX = "index"
_QUESTIONS = 64
"""Questions of a payload: what loads in a tenth of a second, in some hundred files."""


def payloads(
    catalogue: Catalogue, name: str, questions: Iterable[Question], graph_nodes: int
) -> dict[str, Callable[[], Any]]:
    """Everything that can be asked about some questions: what makes the value of every name.

    ``name`` is what the page calls the catalogue. Links are told of designs of up to
    ``graph_nodes`` nodes. Nothing is read before a value is made.
    """
    chunks = _chunks(questions)
    made: dict[str, Callable[[], Any]] = {}
    for kind, parts in chunks.items():
        for part in parts:
            made[f"designs/{kind}/{part[0].num_nodes}"] = partial(_designs, catalogue, part)
            for question in part:
                if question.num_nodes <= graph_nodes:
                    place = f"graphs/{kind}/{question.num_nodes}"
                    made[place] = partial(_graphs, catalogue, question)
    made[INDEX] = partial(_index, catalogue, name, chunks, graph_nodes)
    return made


def script(name: str, value: Any) -> bytes:
    """A payload as a script: its JSON in UTF-8, as raw deflate, in base64.

    >>> script("index", {})
    b'explorer.receive("index", "q64FAA==");\\n'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    packer = zlib.compressobj(9, wbits=-15)
    packed = packer.compress(text.encode()) + packer.flush()
    return f'explorer.receive("{name}", "{b64encode(packed).decode()}");\n'.encode()


def _designs(catalogue: Catalogue, questions: Sequence[Question]) -> list[Any]:
    return [answered_json(answered(catalogue, question)) for question in questions]


def _graphs(catalogue: Catalogue, question: Question) -> list[Any]:
    entries = catalogue.entries(question)
    return graphs_json(parse(entry.recipe).topology() for entry in entries)


def _index(catalogue: Catalogue, name: str, chunks: Chunks, graph_nodes: int) -> dict[str, Any]:
    every = [question for parts in chunks.values() for part in parts for question in part]
    return {
        "version": __version__,
        "catalogue": name,
        "graph_nodes": graph_nodes,
        "kautz": [KAUTZ_NODES, KAUTZ_MULTIPLE],
        "num_designs": sum(len(catalogue.entries(question)) for question in every),
        "kinds": {
            kind: {
                "degree": parts[0][0].degree,
                "bidirectional": parts[0][0].bidirectional,
                "chunks": [[question.num_nodes for question in part] for part in parts],
            }
            for kind, parts in chunks.items()
        },
    }


def _chunks(questions: Iterable[Question]) -> Chunks:
    """Questions of a degree and kind of links, ascending in nodes, in parts."""
    ordered = sorted(questions, key=lambda one: (one.degree, one.bidirectional, one.num_nodes))
    found = {}
    for kind, group in groupby(ordered, _kind):
        each = list(group)
        found[kind] = [each[at : at + _QUESTIONS] for at in range(0, len(each), _QUESTIONS)]
    return found


def _kind(question: Question) -> str:
    return f"{question.degree}-{'bidirectional' if question.bidirectional else 'any'}"
