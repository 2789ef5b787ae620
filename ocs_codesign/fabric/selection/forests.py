"""Forests as schedules of a selection: where cuts allow more than the design's own schedule."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ocs_codesign.bounds import topology_bound
from ocs_codesign.collective import GATHERING, Collective
from ocs_codesign.design import build, verified
from ocs_codesign.fabric.selection.workload import Workload
from ocs_codesign.networks.direct import direct
from ocs_codesign.reconfigure.hold.options import recipe_option
from ocs_codesign.schedulers.forest.choice import Contender, contenders

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.cost import Cost
    from ocs_codesign.design import Design
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.reconfigure.hold.options import FabricOption
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.topology import Topology

KNOWN = "known"
"""The design's own schedule among forests."""

MAX_HOSTS = 128
"""Beyond, packing the trees of all designs takes longer than one wants to wait for a ranking."""


def with_forests(fabric: Fabric, workload: Workload, option: FabricOption) -> FabricOption:
    """The option with the forests of an allreduce's halves, where a workload may gain by them.

    That is where a schedule at the bound of the graph that takes one step more would be faster for
    the largest message.
    """
    topology, costs = option.topology, (option.reduce_scatter, option.allgather)
    jobs = [part.job for part in workload.parts if part.job.collective in GATHERING]
    if option.contenders or not jobs or topology is None or topology.num_nodes > MAX_HOSTS:
        return option
    model, largest = fabric.cost_model, max(job.message_bytes for job in jobs)
    halves = {
        half: cost
        for half, cost in zip(Collective.ALLREDUCE.halves(), costs, strict=True)
        if cost is not None
    }

    def may_gain(half: Collective, cost: Cost) -> bool:
        least = topology_bound(topology, half, cost.steps, cost.t_b)
        return replace(least, steps=cost.steps + 1).time_s(model, largest) < cost.time_s(
            model, largest
        )

    if len(halves) < 2 or not any(may_gain(*known) for known in halves.items()):
        return option
    network = direct(topology, 1)
    fields = (
        replace(contenders(network, half, None, topology), others=(Contender(KNOWN, cost),))
        for half, cost in halves.items()
    )
    return replace(option, contenders=tuple(fields))


def fastest_design(
    fabric: Fabric, recipe: Recipe, collective: Collective, message_bytes: Fraction | float
) -> Design:
    """The verified design that a selection counts for messages of this size, forests or not.

    An allreduce is its halves one after the other, each by what is fastest.
    """
    workload = Workload.of([collective], float(message_bytes))
    option = with_forests(fabric, workload, recipe_option(recipe, [collective]))
    topology = option.topology
    if not option.contenders or topology is None:
        return build(recipe, collective)
    model, size = fabric.cost_model, workload.parts[0].job.message_bytes
    fields = dict(zip(Collective.ALLREDUCE.halves(), option.contenders, strict=True))
    bests = {half: fields[half].choice(model, size).best for half in collective.halves()}
    made = [_made(recipe, half, best, topology) for half, best in bests.items()]
    schedule = made[0][0] if len(made) == 1 else made[0][0].then(made[1][0])
    return verified(recipe, schedule, "+".join(dict.fromkeys(maker for _, maker in made)))


def _made(
    recipe: Recipe, half: Collective, best: Contender, topology: Topology
) -> tuple[Schedule, str]:
    """The schedule of a contender, and who makes it."""
    if best.pipeline is not None:
        return best.pipeline.schedule(best.num_parts, topology), best.maker
    design = build(recipe, half)
    return design.schedule, design.maker
