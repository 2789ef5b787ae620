"""Going on without lost hosts: the option, and what ``survive`` and ``rewire`` do with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.cli.deployed import write
from ocs_codesign.cli.output import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from ocs_codesign.bundle.write.place import BundlePlace
    from ocs_codesign.cli.progress import Progress
    from ocs_codesign.fabric.deployments.deployment import Deployment, Failures
    from ocs_codesign.fabric.repairs.splicing import SpliceChoice, SplicedConfiguration
    from ocs_codesign.fabric.wiring import Configuration
    from ocs_codesign.topology import Topology

# Spelled out, since importing ocs_codesign.fabric for a help text would take too long.
WHERE = ("in-place", "anywhere")
SCORED_FOR_AN_OFFER = 2_000

splice_option = click.option(
    *("--splice", "where"),
    type=click.Choice(WHERE),
    help="Go on without the lost hosts: join what led to them with what led from them, where both "
    "end in one switch (in-place, fewest ports), or anywhere, best cost.",
)


def spliced_bundle(
    deployment: Deployment,
    failed: Failures,
    where: str,
    place: BundlePlace | None,
    json_path: str | None,
    shown: Progress,
    seed: int = 0,
) -> int:
    """A bundle without hosts, written unless it is a question; 1 if circuits cannot be joined."""
    from ocs_codesign.answers.day_two import change_json, change_sections
    from ocs_codesign.answers.refusal import refusal_json, refusal_text
    from ocs_codesign.answers.splice import splice_json, splice_sections
    from ocs_codesign.fabric.deployments.spliced import spliced
    from ocs_codesign.fabric.infeasible import InfeasibleError

    try:
        done = spliced(deployment, failed, where, shown.tell_phase, seed=seed)
    except InfeasibleError as error:
        emit(refusal_json(error, "repaired"), json_path, [refusal_text(error, "repaired")])
        return 1
    if place is not None:
        write(done.deployment, place, shown)
    splice = {
        "hosts": list(failed.hosts),
        "recipe": repr(done.deployment.configuration(done.deployment.up).recipe),
        **splice_json(done.up),
        "torn_down": [{"name": name, "reason": why} for name, why in done.torn_down],
    }
    answer = {
        "repaired": True,
        "splice": splice,
        **change_json(done.deployment, done.change, place),
    }
    sections = splice_sections(done.up, failed.hosts, done.torn_down)
    changes = change_sections(done.deployment, done.change, place)
    emit(answer, json_path, [*sections, "", *changes])
    return 0


def spliced_question(
    configuration: Configuration, failed: Failures, where: str, collective: str, seed: int
) -> tuple[dict[str, Any], list[Any]]:
    """JSON and sections of a splice on an embedding that is invented for the question."""
    from ocs_codesign.answers.splice import splice_json, splice_sections
    from ocs_codesign.fabric.repairs.splicing import spliced_configuration

    if failed.ports or failed.switches:
        raise ValueError(
            "circuits are joined in place of lost hosts: switches and ports have spares"
        )
    made = spliced_configuration(configuration, failed.hosts, collective, where, seed=seed)
    splice = {"hosts": list(failed.hosts), **splice_json(made)}
    return {"repaired": True, "splice": splice}, list(splice_sections(made, failed.hosts))


def offered_splice(
    make: Callable[[], SplicedConfiguration], failed: Failures
) -> tuple[dict[str, Any], list[str]]:
    """What going on without lost hosts would cost, joined in place, or why it cannot be."""
    from ocs_codesign.answers.splice import splice_json, splice_text

    if failed.ports or failed.switches:
        return {}, []
    try:
        made = make()
    except ValueError as error:
        return {"splice": None}, [f"Without spares, nothing is joined in place: {error}."]
    splice = {"hosts": list(failed.hosts), **splice_json(made)}
    return {"splice": splice}, [splice_text(made, failed.hosts)]


@final
@dataclass(frozen=True, slots=True, eq=False)
class LostNodes:
    """What is left of a topology without nodes: its name, itself, how it was chosen, who stays."""

    name: str
    topology: Topology
    choice: SpliceChoice
    stays: NDArray[np.bool_]


def splice_of(
    name: str, topology: Topology, nodes: Sequence[str], *, two_way: bool, seed: int = 0
) -> LostNodes:
    """A recipe or graph without nodes, by their numbers, their ends joined for the allgather."""
    import numpy as np

    from ocs_codesign.fabric.repairs.splicing import chosen
    from ocs_codesign.graphs.expansions.splices import spliced_topology
    from ocs_codesign.search.loose_ends import loose_ends
    from ocs_codesign.search.splices import best_splices

    for text in nodes:
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise ValueError(f"--without {text!r}: of a recipe or graph, give the number of a node")
    ends = loose_ends(topology, [int(text) for text in nodes], two_way=two_way)
    splices = best_splices(topology, ends, seed=seed)
    if not splices.found:
        raise ValueError(
            f"none of {splices.num_possible} ways to join the ends of nodes {', '.join(nodes)} "
            "leaves all others joined"
        )
    way = splices.found[0]
    new_name = f"{name} without nodes {', '.join(nodes)}"
    if "(" in name:
        new_name = f"Splice({name}, {ends.gone!r}, {way.joined!r})"
    stays = np.isin(np.arange(topology.num_nodes), ends.gone, invert=True)
    left = spliced_topology(topology, ends.gone, way.joined)
    return LostNodes(new_name, left, chosen(topology, splices, way), stays)
