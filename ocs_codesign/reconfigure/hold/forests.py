"""Forests of a design beside its own schedule: where cuts allow more than it reaches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ocs_codesign.bounds import topology_bound
from ocs_codesign.collective import Collective
from ocs_codesign.networks.direct import direct
from ocs_codesign.schedulers.forest.choice import Contender, contenders

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.cost import Cost, CostModel
    from ocs_codesign.reconfigure.hold.options import FabricOption

KNOWN = "known"
"""The design's own schedule among forests."""

MAX_FOREST_HOSTS = 128
"""Beyond, packing the trees of all designs takes longer than one wants to wait for a ranking."""


def with_contenders(
    option: FabricOption, model: CostModel, largest: Fraction | float
) -> FabricOption:
    """The option with the forests of an allreduce's halves, where messages may gain by them.

    That is where a schedule at the bound of the graph that takes one step more would be faster for
    the ``largest`` message, in bytes.
    """
    topology, costs = option.topology, (option.reduce_scatter, option.allgather)
    if option.contenders or topology is None or topology.num_nodes > MAX_FOREST_HOSTS:
        return option
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
