"""Forests as schedules of a selection: where cuts allow more than the design's own schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.collective import GATHERING, Collective
from ocs_codesign.design import build, verified
from ocs_codesign.fabric.selection.workload import Workload
from ocs_codesign.reconfigure.hold.forests import with_contenders
from ocs_codesign.reconfigure.hold.options import recipe_option

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.design import Design
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.reconfigure.hold.options import FabricOption
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.schedulers.forest.choice import Contender
    from ocs_codesign.topology import Topology


def with_forests(fabric: Fabric, workload: Workload, option: FabricOption) -> FabricOption:
    """The option with the forests of an allreduce's halves, where a workload may gain by them."""
    jobs = [part.job for part in workload.parts if part.job.collective in GATHERING]
    if not jobs:
        return option
    largest = max(job.message_bytes for job in jobs)
    return with_contenders(option, fabric.cost_model, largest)


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
