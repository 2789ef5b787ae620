"""The explorer as a directory: pages that open from disk, and the data that they load."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign import __version__
from ocs_codesign.core.bounds import fewest_steps, least_t_b
from ocs_codesign.core.collective import GATHERING
from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import check_replaceable, whole_directory
from ocs_codesign.core.progress import tell
from ocs_codesign.faces.answers.texts import told_late
from ocs_codesign.faces.web.exchanges import EXCHANGE_NODES, exchanges_json
from ocs_codesign.graphs.families.shifts import GeneralizedKautz
from ocs_codesign.graphs.handle import handle
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import predict
from ocs_codesign.search.catalogue.entry import stored_frontier
from ocs_codesign.search.pareto import baseline_recipes, closed_baselines, literature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from importlib.resources.abc import Traversable

    from numpy.typing import NDArray

    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.cost import Cost
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.schedules.design import Design, Question
    from ocs_codesign.search.catalogue.entry import Entry
    from ocs_codesign.search.catalogue.store import Catalogue

    Chunks = dict[str, list[list[Question]]]


# What the explorer's pages are told of a catalogue: its questions, their designs and graphs.
#
# Columns, not rows: a page has thousands of designs, and what repeats in a column is compressed.


PUBLISHED, BASELINE = "published", "baseline"
_STEPS_BEYOND = 3
"""Steps more than the fewest for which a bound is told even where no design takes so many."""


@final
@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """A question of a catalogue: its entries, and the designs that they are compared with.

    ``compared`` has the published designs and the baselines that have a recipe, each with what it
    is; ``uncosted`` are labels of published designs whose cost takes too long to work out here.
    """

    question: Question
    entries: tuple[Entry, ...]
    compared: tuple[tuple[str, Design], ...]
    uncosted: tuple[str, ...]


def answered_json(answered: ShownQuestion) -> dict[str, Any]:
    """A question with its bounds, its designs as columns, and what they are compared with."""
    question, entries = answered.question, answered.entries
    compared = [
        _compared_json(kind, design, {half.name: design.cost_of(half) for half in GATHERING})
        for kind, design in answered.compared
    ]
    for collective in GATHERING:
        compared += [
            _compared_json(BASELINE, design, {collective.name: design.cost})
            for design in closed_baselines(question, collective)
        ]
    return {
        "nodes": question.num_nodes,
        "bounds": {one.name: _bounds(answered, one) for one in GATHERING},
        "frontier": {one.name: _frontier(entries, one) for one in GATHERING},
        "designs": {
            "recipe": [entry.recipe for entry in entries],
            "handle": [handle(entry.recipe) for entry in entries],
            "label": [entry.label for entry in entries],
            "schedule": [told_late(entry.schedule, entry) for entry in entries],
            "measured": [entry.measured for entry in entries],
            "bidirectional": [entry.bidirectional for entry in entries],
            "reverse_symmetric": [entry.reverse_symmetric for entry in entries],
            "alltoall": [entry.alltoall and str(entry.alltoall) for entry in entries],
            **{one.name: [_pair(entry.cost(one)) for entry in entries] for one in GATHERING},
        },
        "compared": compared,
        "uncosted": list(answered.uncosted),
    }


def _pair(cost: Cost) -> list[Any]:
    """Steps, and t_b as text, exactly."""
    return [cost.steps, str(cost.t_b)]


def _frontier(entries: tuple[Entry, ...], collective: Collective) -> list[int]:
    """Which entries no other one dominates, in the order of their steps."""
    at = {id(entry): index for index, entry in enumerate(entries)}
    return [at[id(entry)] for entry in stored_frontier(entries, collective)]


def _bounds(answered: ShownQuestion, collective: Collective) -> list[list[Any]]:
    """Steps from which on another t_b is the least that counting allows, each with that t_b."""
    question = answered.question
    size = (question.num_nodes, question.degree)
    fewest = len(collective.halves()) * fewest_steps(*size, bidirectional=question.bidirectional)
    steps = {fewest + more for more in range(-1, _STEPS_BEYOND + 1)}
    steps |= {entry.cost(collective).steps for entry in answered.entries}
    found: list[list[Any]] = []
    for number in sorted(steps):
        least = least_t_b(*size, number, collective, bidirectional=question.bidirectional)
        if least is not None and (not found or found[-1][1] != str(least)):
            found.append([number, str(least)])
    return found


def _compared_json(kind: str, design: Design, costs: dict[str, Cost]) -> dict[str, Any]:
    recipe = repr(design.recipe) if design.recipes else None
    return {
        "kind": kind,
        "label": design.label,
        "recipe": recipe,
        "handle": None if recipe is None else handle(recipe),
        "known": design.known.value,
        "costs": {name: _pair(cost) for name, cost in costs.items()},
    }


def graphs_json(topologies: Iterable[Topology]) -> list[dict[str, Any] | None]:
    """Graphs whose nodes all have as many links out, as what their links lead to.

    ``heads`` are those of the links out of node 0, then of node 1 and so on, in base64: a byte each
    up to 256 nodes, else two bytes, the lower one first. ``orbits`` number the orbits of the nodes
    under the declared symmetry; null if none is declared. A graph that is not regular is null.

    >>> from ocs_codesign.core.topology import Topology
    >>> graphs_json([Topology(2, [1, 0], [0, 1])])
    [{'nodes': 2, 'degree': 1, 'heads': 'AQA=', 'orbits': None}]
    """
    return list(_graphs_of_designs(topologies))


def _graphs_of_designs(topologies: Iterable[Topology]) -> Iterator[dict[str, Any] | None]:
    for topology in topologies:
        degrees = topology.out_degrees()
        if degrees.min() != degrees.max():
            yield None
            continue
        order = np.lexsort((topology.head, topology.tail))
        symmetry = topology.symmetry
        yield {
            "nodes": topology.num_nodes,
            "degree": int(degrees[0]),
            "heads": _packed(topology.head[order], topology.num_nodes),
            "orbits": None
            if symmetry is None
            else _packed(symmetry.node_orbit, topology.num_nodes),
        }


def _packed(numbers: NDArray[Any], num_nodes: int) -> str:
    return b64encode(numbers.astype("u1" if num_nodes <= 2**8 else "<u2").tobytes()).decode()


# Questions of a catalogue with all that a page shows beside their designs.


KAUTZ_NODES, KAUTZ_MULTIPLE = 512, 64
"""A generalized Kautz graph has no formula, and BFB on thousands of them takes an hour: its cost is
worked out up to so many nodes, and above for multiples of 64."""


def answered(catalogue: Catalogue, question: Question) -> ShownQuestion:
    """What is stored for a question, the published designs of its size, and its baselines."""
    entries = catalogue.entries(question)
    stored = {entry.recipe: entry for entry in entries}
    compared: list[tuple[str, Design]] = []
    uncosted: list[str] = []
    for kind, recipe in _recipes(question):
        if repr(recipe) in stored:
            compared.append((kind, stored[repr(recipe)].design()))
        elif _takes_long(recipe):
            uncosted.append(recipe.label())
        else:
            compared.append((kind, predict(recipe)))
    return ShownQuestion(question, entries, tuple(compared), tuple(uncosted))


def _recipes(question: Question) -> Iterator[tuple[str, Recipe]]:
    """Published designs, then baselines that are none of them."""
    published = [
        recipe
        for recipe in literature(question.num_nodes, question.degree)
        if question.is_answered_by(recipe)
    ]
    yield from ((PUBLISHED, recipe) for recipe in published)
    for recipe in baseline_recipes(question):
        if recipe not in published:
            yield BASELINE, recipe


def _takes_long(recipe: Recipe) -> bool:
    return (
        isinstance(recipe, GeneralizedKautz)
        and recipe.num_nodes > KAUTZ_NODES
        and recipe.num_nodes % KAUTZ_MULTIPLE != 0
    )


# The data of a site: what its scripts ask for by name, made from a catalogue.
#
# A browser that opens a page from disk may load scripts and nothing else. So every payload is a
# script of one call, with its name and its JSON as compressed text; pages load it when they need
# it.
#
# - ``index``: the sizes there are, and which payload has which. - ``designs/4-any/961``: the
# questions of degree 4 and any links from 961 nodes on. - ``graphs/4-any/961``: the links of the
# designs of one question. - ``alltoall/4-any/961``: their all-to-all.


INDEX = "index"
_QUESTIONS = 64
"""Questions of a payload: what loads in a tenth of a second, in some hundred files."""


def payloads(
    catalogue: Catalogue,
    name: str,
    questions: Iterable[Question],
    graph_nodes: int,
    exchange_nodes: int = EXCHANGE_NODES,
) -> dict[str, Callable[[], Any]]:
    """Everything that can be asked about some questions: what makes the value of every name.

    ``name`` is what the page calls the catalogue. Links are told of designs of up to
    ``graph_nodes`` nodes, all-to-all of those of up to ``exchange_nodes`` of them. Nothing is read
    before a value is made.
    """
    exchange_nodes = min(graph_nodes, exchange_nodes)
    chunks = _chunks(questions)
    made: dict[str, Callable[[], Any]] = {}
    for kind, parts in chunks.items():
        for part in parts:
            made[f"designs/{kind}/{part[0].num_nodes}"] = partial(_designs, catalogue, part)
            for question in part:
                if question.num_nodes <= graph_nodes:
                    place = f"graphs/{kind}/{question.num_nodes}"
                    made[place] = partial(_graphs, catalogue, question)
                if question.num_nodes <= exchange_nodes:
                    place = f"alltoall/{kind}/{question.num_nodes}"
                    made[place] = partial(_exchanges, catalogue, question)
    made[INDEX] = partial(_index, catalogue, name, chunks, (graph_nodes, exchange_nodes))
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


def _exchanges(catalogue: Catalogue, question: Question) -> list[Any]:
    return exchanges_json(parse(entry.recipe) for entry in catalogue.entries(question))


def _index(
    catalogue: Catalogue, name: str, chunks: Chunks, most: tuple[int, int]
) -> dict[str, Any]:
    every = [question for parts in chunks.values() for part in parts for question in part]
    return {
        "version": __version__,
        "catalogue": name,
        "graph_nodes": most[0],
        "exchange_nodes": most[1],
        "kautz": [KAUTZ_NODES, KAUTZ_MULTIPLE],
        "num_designs": sum(map(catalogue.num_entries, every)),
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


FORMAT, LISTING, PAGE = "ocs-codesign explorer", "site.json", "index.html"
MAX_LISTING_BYTES = 16 * 2**20


def check_site_directory(directory: str | Path) -> None:
    """ValueError or OSError if a site must not be written there: only sites are replaced.

    The directory must be new, empty, or hold a site and nothing else.
    """
    check_replaceable(
        Path(directory).resolve(),
        lambda earlier: _files_in(earlier) - _listed_files(earlier),
        "a site is only written to a new or empty directory or over an earlier site",
        swapped=True,
    )


def write_site(directory: str | Path, payloads: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Write the pages and all payloads, whole or not at all; the listing that was written.

    The same catalogue gives the same bytes. Raises ValueError for a directory that holds anything
    else, OSError if it cannot be written.
    """
    check_site_directory(directory)
    sizes: dict[str, int] = {}
    with whole_directory(Path(directory), swapped=True) as part:
        for place, content in _contents(payloads):
            (part / place).parent.mkdir(parents=True, exist_ok=True)
            (part / place).write_bytes(content)
            sizes[place] = len(content)
        listing = {"format": FORMAT, "version": __version__, "files": dict(sorted(sizes.items()))}
        text = json.dumps(listing, indent=1, ensure_ascii=False) + "\n"
        (part / LISTING).write_text(text, encoding="utf-8")
    return listing


def static_files() -> dict[str, Traversable]:
    """The files of the pages themselves, by their place in a site."""
    return dict(sorted(_walk(files("ocs_codesign.faces.web").joinpath("static"), "")))


def _walk(folder: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{above}{each.name}/")
        else:
            yield f"{above}{each.name}", each


def _contents(payloads: Mapping[str, Callable[[], Any]]) -> Iterator[tuple[str, bytes]]:
    for place, file in static_files().items():
        yield place, file.read_bytes()
    for done, (name, value) in enumerate(payloads.items()):
        tell(done, len(payloads))
        yield f"data/{name}.js", script(name, value())


def _files_in(directory: Path) -> set[str]:
    """Paths, with slashes, of everything in a directory that is not a directory itself."""
    return {
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def _listed_files(directory: Path) -> set[str]:
    """The files of the site that is in a directory; none if there is no site."""
    try:
        listing = json.loads(read_limited(directory / LISTING, MAX_LISTING_BYTES))
    except (OSError, ValueError, RecursionError):
        return set()
    if not isinstance(listing, dict) or listing.get("format") != FORMAT:
        return set()
    files = listing.get("files")
    return {LISTING, *files} if isinstance(files, dict) else set()
