"""Path tables as answers: the exact all-to-all time over their paths, its bounds, and deadlock."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.answers.sections import Facts
from ocs_codesign.answers.texts import MAX_FRACTION, in_decimals, t_b_text
from ocs_codesign.schedulers.alltoall.deadlock import dependency_cycle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.schedulers.alltoall.result import PathTable, Throughput
    from ocs_codesign.schedulers.alltoall.virtual_channels import Channelled
    from ocs_codesign.topology import Topology

KINDS = {
    "optimal": "an optimal flow over short paths",
    "disjoint": "disjoint short paths",
    "deadlock-free": "disjoint up*/down* paths",
}
_SHOWN_LINKS = 8


def paths_json(
    kind: str, table: PathTable, best: Throughput, channelled: Channelled | None = None
) -> dict[str, Any]:
    """A table of a kind of KINDS beside the best routing without rules.

    ``cycle`` is of links without channels; with those of ``channelled`` there is no deadlock.
    """
    topology, cycle = table.topology, dependency_cycle(table)
    hops, time = table.hops(), table.time
    pair = table.source * topology.num_nodes + table.node
    busiest = _link_json(topology, table.busiest_link())
    return {
        "nodes": topology.num_nodes,
        "degree": topology.degree,
        "routing": kind,
        "num_paths": table.num_paths,
        "most_paths_of_a_pair": int(np.unique(pair, return_counts=True)[1].max()),
        "num_parts": table.num_parts,
        "t_b": str(time),
        "t_b_float": float(time),
        "proven_bound": str(table.bound),
        "gap": float(time / table.bound - 1),
        "optimal": time == table.bound,
        "any_routing_t_b": str(best.time),
        "any_routing_bound": str(best.bound),
        "over_any_routing": float(time / best.bound),
        "busiest_link": {**busiest, "load": str(table.worst_load)},
        "shortest_path": int(hops.min()),
        "longest_path": int(hops.max()),
        "deadlock_free": cycle is None or channelled is not None,
        "virtual_channels": None if channelled is None else _channels_json(channelled),
        "cycle": None if cycle is None else [_link_json(topology, link) for link in cycle],
    }


def _channels_json(channelled: Channelled) -> dict[str, Any]:
    """How many there are and at least must be, and the hops in each."""
    num, channel = channelled.num_channels, channelled.table.channel
    hops = np.bincount([] if channel is None else channel, minlength=num)
    return {"num_channels": num, "least": channelled.least, "num_hops": hops.tolist()}


def _link_json(topology: Topology, link: int) -> dict[str, int]:
    return {"link": link, "tail": int(topology.tail[link]), "head": int(topology.head[link])}


def paths_sections(answer: dict[str, Any]) -> Iterator[Section]:
    """The same, with what it is of and written to, where people read it."""
    busiest, parts = answer["busiest_link"], answer["num_parts"]
    gap = "proven the best shares" if answer["optimal"] else f"gap {answer['gap']:.2g}"
    yield Facts(
        ("recipe", answer["recipe"]),
        ("label", answer["label"]),
        ("graph", answer["graph"]),
        ("nodes, degree", f"{answer['nodes']}, {answer['degree']}"),
        ("routing", KINDS[answer["routing"]]),
        ("paths", f"{answer['num_paths']:,}, at most {answer['most_paths_of_a_pair']} of a pair"),
        ("shares", "all of a message" if parts == 1 else f"multiples of 1/{parts}"),
        ("hops", f"{answer['shortest_path']} to {answer['longest_path']}"),
        ("t_b", f"{_decimal(answer['t_b'])}, {gap}"),
        ("bound", f"{_decimal(answer['proven_bound'])} (no shares of such paths can beat it)"),
        ("any routing", _over(answer)),
        ("busiest link", f"{_link_text(busiest)}: {busiest['load']} messages"),
        ("deadlock", _deadlock(answer["cycle"], answer["virtual_channels"])),
        ("written to", answer["out"]),
    )


def _over(answer: dict[str, Any]) -> str:
    """What these paths cost against routing without rules."""
    most = "" if answer["any_routing_t_b"] == answer["any_routing_bound"] else "at most "
    return (
        f"{_decimal(answer['any_routing_bound'])} at least; "
        f"these paths take {most}{answer['over_any_routing']:.4f} times as long"
    )


def _decimal(t_b: str) -> str:
    """A fraction with its decimal, or that alone if the fraction is too long to read."""
    value = Fraction(t_b)
    return t_b_text(value) if len(t_b) <= MAX_FRACTION else in_decimals(value)


def _deadlock(cycle: list[dict[str, int]] | None, channels: dict[str, Any] | None) -> str:
    """Whether links may wait for each other in a ring, and which."""
    if cycle is None:
        return "none: the channel dependencies have no cycle"
    if channels is not None:
        num, least = channels["num_channels"], channels["least"]
        proof = "fewer do not do" if num == least else f"at least {least} are needed"
        return f"none on {num} virtual channels: {proof}"
    shown = ", ".join(_link_text(link) for link in cycle[:_SHOWN_LINKS])
    more = f" and {len(cycle) - _SHOWN_LINKS} more" if len(cycle) > _SHOWN_LINKS else ""
    return f"possible: a cycle of {len(cycle)} channel dependencies, links {shown}{more}"


def _link_text(link: dict[str, Any]) -> str:
    return f"{link['link']} ({link['tail']} -> {link['head']})"
