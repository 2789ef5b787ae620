"""What a repair without spares answers: costs before and after, what is proven, and the ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts
from ocs_codesign.answers.texts import cost_json, cost_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.fabric.repairs.splicing import SpliceChoice, SplicedConfiguration

_COUNTED = 10**9


def choice_json(choice: SpliceChoice) -> dict[str, Any]:
    """The JSON form of a way to join the ends of lost nodes, next to what it is compared with."""
    splices = choice.splices
    return {
        "lost_nodes": list(splices.ends.gone),
        "joined": list(choice.way.joined),
        "collective": splices.collective.name,
        "unit": "M/B, B the egress of a node",
        "before": cost_json(choice.before),
        "after": cost_json(choice.cost),
        "nothing_joined": None if choice.holes is None else cost_json(choice.holes),
        "bound": cost_json(splices.bound),
        "frontier": [cost_json(way.cost) for way in splices.found],
        "wasted_links": choice.way.num_wasted,
        "ways": splices.num_possible,
        "ways_scored": splices.num_scored,
        "optimal": splices.is_optimal,
        "seed": splices.seed,
    }


def splice_json(spliced: SplicedConfiguration) -> dict[str, Any]:
    """The same on a fabric, with the ports that change."""
    return {
        "configuration": spliced.configuration.name,
        "where": spliced.where.value,
        "nodes": spliced.configuration.topology.num_nodes,
        **choice_json(spliced.choice),
        "cross_connects_removed": spliced.num_removed,
        "cross_connects_made": spliced.num_made,
        "ports_changed": spliced.num_ports,
    }


def choice_facts(choice: SpliceChoice) -> tuple[tuple[str, object], ...]:
    """Costs before, after and if nothing is joined, and how far the search went."""
    splices, name = choice.splices, choice.splices.collective.name
    holes = "nodes are cut off" if choice.holes is None else cost_text(choice.holes)
    wasted = choice.way.num_wasted
    return (
        (f"{name} before", cost_text(choice.before)),
        (f"{name} after", cost_text(choice.cost)),
        ("if nothing is joined", holes),
        ("no topology beats", cost_text(splices.bound)),
        ("found", _proof_text(choice)),
        ("loops, parallel links", wasted or None),
    )


def splice_sections(
    spliced: SplicedConfiguration,
    hosts: Sequence[str],
    torn_down: Sequence[tuple[str, str]] = (),
) -> Iterator[Section]:
    """What is left, what it costs, and what changes."""
    yield Facts(
        ("configuration", spliced.configuration.name),
        ("goes on without", ", ".join(hosts)),
        ("nodes left", spliced.configuration.topology.num_nodes),
        *choice_facts(spliced.choice),
        ("joined", f"{spliced.where.value}, light followed: it makes the topology"),
        ("cross-connects", f"{spliced.num_removed} taken down, {spliced.num_made} set up"),
        ("ports that change", spliced.num_ports),
    )
    for name, why in torn_down:
        yield f"Configuration {name} is torn down: {why}."


def splice_text(spliced: SplicedConfiguration, hosts: Sequence[str]) -> str:
    """An offer, in a sentence, with the option that does it."""
    return (
        f"Without spares: --splice {spliced.where.value} goes on without {', '.join(hosts)} on "
        f"{spliced.configuration.topology.num_nodes} hosts: "
        f"{spliced.choice.splices.collective.name} in {cost_text(spliced.choice.cost)} "
        f"({_proof_text(spliced.choice)}); {spliced.num_ports} ports change."
    )


def _proof_text(choice: SpliceChoice) -> str:
    splices = choice.splices
    if splices.is_exhaustive:
        first = choice.way is splices.found[0]
        only = splices.num_possible == 1
        if only:
            return "the only way to join the ends"
        return f"the {'best' if first else 'best that fits'} of all {splices.num_possible} ways"
    if splices.is_optimal:
        return "no topology has a smaller t_b"
    many = splices.num_possible
    of = str(many) if many < _COUNTED else f"{many:.2e}" if many < 10**300 else "very many"
    scored = f"{splices.num_scored} of {of} ways were scored"
    return f"best found, by search from seed {splices.seed}: {scored}"
