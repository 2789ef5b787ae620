"""Make base_topologies/: a file for each graph of the catalogue, their index and the table of them.

    python experiments/make_base_topologies.py           # write the files
    python experiments/make_base_topologies.py --check   # compare them; exit 1 at a difference

Each graph is built from its definition and checked against the facts the catalogue states before
anything is written. The text of README.md up to its table is kept as it is found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from base_catalogue import CATALOGUE, BaseGraph, Edges
from graph_invariants import (
    adjacency_of,
    bfb_cost_of,
    distances_of,
    girth_of,
    intersection_array_of,
)

DIRECTORY = Path(__file__).resolve().parent.parent / "base_topologies"
INDEX_VERSION = 1
EDGES_A_LINE = 12
TABLE_HEAD = "| name | graph | N | d | steps | t_b |\n|---|---|---:|---:|---:|---:|\n"


@dataclass(frozen=True, slots=True)
class Invariants:
    """What the index says of a graph beyond its catalogue entry, computed from its edges."""

    steps: int
    t_b: Fraction
    distance_regular: bool


def normalized(edges: Edges, directed: bool) -> Edges:
    """The edges sorted, each once, an undirected one from its lower to its higher end."""
    return sorted(set(edges) if directed else {(min(edge), max(edge)) for edge in edges})


def verified(graph: BaseGraph, edges: Edges) -> Invariants:
    """The invariants of normalized edges; ValueError where they belie the catalogue."""
    links = edges if graph.directed else edges + [(head, tail) for tail, head in edges]
    require(graph, "nodes", set(range(graph.nodes)), {node for link in links for node in link})
    require(graph, "loops", [], [tail for tail, head in links if tail == head])
    adjacency = adjacency_of(graph.nodes, links)
    require(graph, "out-degrees", {graph.degree}, set(map(int, adjacency.sum(axis=1))))
    require(graph, "in-degrees", {graph.degree}, set(map(int, adjacency.sum(axis=0))))
    try:
        distances = distances_of(adjacency)
    except ValueError as error:
        raise ValueError(f"{graph.name}: {error}") from None
    steps = int(distances.max())
    require(graph, "diameter", graph.steps, steps)
    array = None if graph.directed else intersection_array_of(adjacency, distances)
    require(graph, "intersection array", graph.array, array)
    if graph.girth is not None:
        require(graph, "girth", graph.girth, girth_of(adjacency, distances))
    return Invariants(steps, bfb_cost_of(adjacency, distances), array is not None)


def require(graph: BaseGraph, fact: str, expected: object, found: object) -> None:
    """ValueError unless a fact about the graph is as expected."""
    if found != expected:
        raise ValueError(f"{graph.name}: {fact} should be {expected}, not {found}")


def graph_text(graph: BaseGraph, edges: Edges) -> str:
    """A graph file: the header keys on the first line, then the edges, twelve a line."""
    header = {
        "name": graph.name,
        "nodes": graph.nodes,
        "degree": graph.degree,
        "directed": graph.directed,
    }
    pairs = [f"[{tail},{head}]" for tail, head in edges]
    starts = range(0, len(pairs), EDGES_A_LINE)
    rows = ",\n".join(",".join(pairs[start : start + EDGES_A_LINE]) for start in starts)
    return json.dumps(header)[:-1] + ', "edges": [\n' + rows + "\n]}\n"


def index_row(graph: BaseGraph, found: Invariants, text: str) -> dict[str, object]:
    """The entry of a graph in the index."""
    return {
        "name": graph.name,
        "label": graph.label,
        "nodes": graph.nodes,
        "degree": graph.degree,
        "directed": graph.directed,
        "steps": found.steps,
        "t_b": str(found.t_b),
        "distance_regular": found.distance_regular,
        "source": graph.source,
        "file": f"{graph.name}.json",
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
    }


def index_text(rows: Sequence[Mapping[str, object]]) -> str:
    """The index file, a line for each graph."""
    lines = ",\n".join(json.dumps(row) for row in rows)
    return f'{{"version": {INDEX_VERSION}, "graphs": [\n{lines}\n]}}\n'


def readme_text(old: str, rows: Sequence[Mapping[str, object]]) -> str:
    """The readme with its table, at its end, made anew."""
    text, head, _ = old.partition(TABLE_HEAD)
    if not head:
        raise ValueError("README.md has no table of graphs")
    columns = ("name", "label", "nodes", "degree", "steps", "t_b")
    lines = ["| " + " | ".join(str(row[column]) for column in columns) + " |\n" for row in rows]
    return text + head + "".join(lines)


def make_files(readme: str) -> dict[str, str]:
    """The text of every file of the directory by its name, given the readme as it is now."""
    files: dict[str, str] = {}
    rows: list[dict[str, object]] = []
    for graph in CATALOGUE:
        edges = normalized(graph.make(), graph.directed)
        text = graph_text(graph, edges)
        files[f"{graph.name}.json"] = text
        rows.append(index_row(graph, verified(graph, edges), text))
    files["index.json"] = index_text(rows)
    files["README.md"] = readme_text(readme, rows)
    return files


def first_difference(directory: Path, files: Mapping[str, str]) -> str | None:
    """The first name, sorted, whose file is absent, different, or not among those made."""
    found = directory.iterdir() if directory.is_dir() else ()
    present = {path.name for path in found if path.is_file()}
    for name in sorted(present | set(files)):
        if name not in present or name not in files:
            return name
        if (directory / name).read_bytes() != files[name].encode():
            return name
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the files; the exit code."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--check", action="store_true", help="compare the files, write nothing")
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="default: %(default)s")
    options = parser.parse_args(arguments)
    directory: Path = options.directory
    files = make_files((DIRECTORY / "README.md").read_text(encoding="utf-8"))
    if options.check:
        differing = first_difference(directory, files)
        if differing is not None:
            print(f"differs: {directory / differing}", file=sys.stderr)
        return int(differing is not None)
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name).write_bytes(text.encode())
    print(f"{len(CATALOGUE)} graphs written to {directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
