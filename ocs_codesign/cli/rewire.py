"""``ocs-codesign rewire``: from one topology's circuits to another's, in stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ocs_codesign.cli.options import json_option, quantity_option
from ocs_codesign.cli.output import STDOUT, check_outputs, emit
from ocs_codesign.cli.progress import progress
from ocs_codesign.quantities import parse_time

if TYPE_CHECKING:
    from ocs_codesign.fabric.description import PortModel
    from ocs_codesign.reconfigure.change import ReconfigurationCost
    from ocs_codesign.topology import Topology

# Spelled out, since importing ocs_codesign.fabric for a help text would take too long.
PORT_MODELS = ("simplex", "two-sided", "matching")


@click.command(short_help="Change circuits from one topology to another, in stages.")
@click.argument("held", metavar="FROM_RECIPE")
@click.argument("target", metavar="TO_RECIPE")
@click.option(
    "--port-model",
    type=click.Choice(PORT_MODELS),
    help="What a plane can hold (default: as the profile says, else simplex).",
)
@click.option(
    "--planes",
    type=click.IntRange(1, 4096),
    help="Planes there are (default: as both need); more than both together are left idle.",
)
@click.option("--free-hosts", is_flag=True, help="Choose which host is which node, too.")
@click.option("--profile", metavar="NAME", help="Switches of this make, such as polatis-384.")
@quantity_option("--delta", parse_time, "Dead time of a change, such as 25ms.")
@quantity_option("--delta-per-circuit", parse_time, "More dead time for every circuit made.")
@click.option("--plane-stops", is_flag=True, help="A plane is dark as a whole while it changes.")
@quantity_option("--time-limit", parse_time, "Time for the search (default 60s).")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of local searches.")
@click.option("--out", metavar="FILE", help="Write all cross-connects, in their order, as CSV.")
@json_option
def rewire(
    held: str,
    target: str,
    port_model: str | None,
    planes: int | None,
    free_hosts: bool,
    profile: str | None,
    delta: float | None,
    delta_per_circuit: float | None,
    plane_stops: bool,
    time_limit: float | None,
    seed: int,
    out: str | None,
    json_path: str | None,
) -> None:
    """Plan the change from the circuits of FROM_RECIPE to those of TO_RECIPE.

    The planes of the new topology are chosen such that the fewest circuits have to be made, with a
    proof or a bound. They change in stages, in each of which circuits are torn down before others
    are made, and the circuits that stay up are proven to join all nodes, if that can be. A
    cross-connect 1A-2B joins the A port of node 0 with the B port of node 1 in its plane.
    """
    if profile is not None and (delta is not None or delta_per_circuit is not None):
        raise click.UsageError("--profile says the dead time: --delta is for switches without one")
    if seed < 0:
        raise click.UsageError(f"--seed is {seed}: it must be at least 0")
    check_outputs(json_path, out)
    from ocs_codesign.answers.rewire import (
        RewiringAnswer,
        plan_csv,
        rewiring_json,
        rewiring_sections,
    )
    from ocs_codesign.fabric.planes.models import planes_of
    from ocs_codesign.fabric.rewiring.hosts import free_rewiring
    from ocs_codesign.fabric.rewiring.minimum import TIME_LIMIT_S, is_kept, minimum_rewiring
    from ocs_codesign.fabric.rewiring.stages import staged
    from ocs_codesign.fabric.rewiring.state import plane_state
    from ocs_codesign.lp import Options
    from ocs_codesign.reconfigure.change import ReconfigurationCost

    with progress("Choosing planes") as shown:
        model, cost = _switches(port_model, profile, delta, delta_per_circuit)
        names, topologies = _topologies(held, target)
        before, as_it_comes = (planes_of(topology, model) for topology in topologies)
        needed = max(before.num_planes, as_it_comes.num_planes)
        if planes is not None and planes < needed:
            raise ValueError(f"--planes is {planes}, but the topologies need {needed}")
        # On so many all that is kept can stay where it is, and the rest fits the others.
        useful = before.num_planes + as_it_comes.num_planes
        state = plane_state(before, min(planes or needed, useful))
        options = Options(time_limit_s=TIME_LIMIT_S if time_limit is None else time_limit)
        fixed = minimum_rewiring(state, topologies[1], model, options=options, seed=seed)
        free = None
        if free_hosts:
            shown.tell_phase("Choosing hosts")
            free = free_rewiring(state, topologies[1], model, options=options, seed=seed)
        shown.tell_phase("Ordering stages")
        after = (fixed if free is None else free.rewiring).target
        timed = cost or ReconfigurationCost(0)
        plan = staged(state, after, timed, model, plane_stops=plane_stops)
        without_choice = int((~is_kept(as_it_comes, state)).sum())
        answer = RewiringAnswer(names, fixed, free, without_choice, plan, cost is not None)
    files = {} if out is None else {out: plan_csv(plan)}
    sections = rewiring_sections(answer, None if out == STDOUT else out)
    emit(rewiring_json(answer), json_path, sections, files)


def _switches(
    port_model: str | None,
    profile: str | None,
    delta: float | None,
    delta_per_circuit: float | None,
) -> tuple[PortModel, ReconfigurationCost | None]:
    from ocs_codesign.fabric.description import PortModel
    from ocs_codesign.fabric.profiles import profile_named
    from ocs_codesign.reconfigure.change import ReconfigurationCost

    if profile is None:
        model = PortModel(port_model or PORT_MODELS[0])
        if delta is None and delta_per_circuit is None:
            return model, None
        return model, ReconfigurationCost(delta or 0, delta_per_circuit or 0)
    switch = profile_named(profile)
    if port_model is not None:
        switch = switch.used_as(PortModel(port_model))
    if switch.port_model is PortModel.RESTRICTED:
        raise ValueError(
            f"{profile} is restricted: its states are listed, so that no planes can be chosen"
        )
    return switch.port_model, switch.change


def _topologies(held: str, target: str) -> tuple[tuple[str, str], tuple[Topology, Topology]]:
    from ocs_codesign.graphs.text import parse

    before, after = parse(held), parse(target)
    if before.num_nodes != after.num_nodes:
        raise ValueError(
            f"{before!r} has {before.num_nodes} nodes and {after!r} {after.num_nodes}: circuits "
            "change between the same hosts"
        )
    return (repr(before), repr(after)), (before.topology(), after.topology())
