"""Graphs as answers: what a topology that was written or read is."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.formats.graphs.facts import GraphFacts
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.topology import Topology

_MAX_SPEEDS = 8


def topology_json(
    recipe: Recipe | None, graph: str | None, topology: Topology, format_name: str
) -> dict[str, Any]:
    """A topology, of a recipe or of a graph file of that name, as it is written."""
    return {
        "recipe": None if recipe is None else repr(recipe),
        "label": None if recipe is None else recipe.label(),
        "graph": graph,
        "nodes": topology.num_nodes,
        "degree": topology.degree,
        "links": topology.num_links,
        "format": format_name,
    }


def topology_sections(answer: dict[str, Any], out: str) -> Iterator[Section]:
    """The same where people read it."""
    yield Facts(*((key, answer[key]) for key in answer if key != "out"), ("written to", out))


def import_json(name: str, format_name: str, facts: GraphFacts, out: str | None) -> dict[str, Any]:
    """What is known of the graph in a file of that name, written again to ``out``."""
    value = asdict(facts)
    nodes, links = value.pop("num_nodes"), value.pop("num_links")
    speeds = {"link_speeds": list(facts.link_speeds)}
    file = {"file": name, "format": format_name}
    return {**file, "nodes": nodes, "links": links, **value, **speeds, "out": out}


def import_sections(
    name: str, read_as: str, facts: GraphFacts, out: str | None, *, hint: bool
) -> Iterator[Section]:
    """The same where people read it; with a ``hint`` if links back may have been meant."""
    diameter = "not computed" if facts.strongly_connected else "none"
    speeds = ", ".join(map(str, facts.link_speeds[:_MAX_SPEEDS]))
    more = ", ..." * (len(facts.link_speeds) > _MAX_SPEEDS)
    yield Facts(
        ("file", name),
        ("read as", read_as),
        ("nodes", facts.num_nodes),
        ("directed links", facts.num_links),
        ("degree", facts.degree),
        ("regular", _yes(facts.regular)),
        ("undirected", _yes(facts.undirected)),
        ("self-loops", facts.self_loops),
        ("parallel links", facts.parallel_links),
        ("strongly connected", _yes(facts.strongly_connected)),
        ("diameter", diameter if facts.diameter is None else facts.diameter),
        ("link speeds", "all equal" if len(facts.link_speeds) <= 1 else speeds + more),
        ("written to", out),
    )
    if hint and facts.one_way_links:
        yield (
            f"{counted(facts.one_way_links, 'link')} of {facts.num_links} have no link back; "
            "if every line was meant to be an edge, read it with --undirected."
        )


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"
