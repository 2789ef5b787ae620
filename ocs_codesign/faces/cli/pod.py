"""``ocs-codesign pod``: slices of pods whose cubes are fixed and whose circuits are free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.quantities import parse_time
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import argument, command, option
from ocs_codesign.faces.cli.output import Answer, answered
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.core.lp import Options

LIMIT_S = 120.0


@click.group(short_help="Slices of pods: fixed cubes of chips, free circuits between them.")
def pod() -> None:
    """Price, design, pack and repair slices of a pod, whose cubes optical switches join.

    A SLICE is a shape in chips (8x8x16, 8x8x16_twisted), rows: of a lattice of cubes, a recipe, or
    a JSON file {"cubes": k, "permutations": [...]} where permutations[d][q][c] is the cube whose -
    port the + port of cube c is joined to by switch d:q.

    \b
    Example:
      ocs-codesign pod cost 4x4x8_twisted
    """


slice_argument = argument("given", metavar="SLICE")
pod_option = option(
    "--pod", "pod_name", default="tpu-v4", metavar="NAME|FILE", help="The pod, by name or as TOML."
)


def collective_option(*names: str) -> Any:
    """The option -c of these collectives, the first one the default."""
    return option(
        *("-c", "--collective"),
        type=click.Choice(names, case_sensitive=False),
        default=names[0],
        help="The collective operation.",
    )


limit_option = opt.quantity_option(
    "--time-limit", parse_time, f"Time for solving, such as 60s (default: {LIMIT_S:g}s)."
)


def options_of(limit_s: float | None, gap: float | None = None) -> Options:
    """Options of a solver with this limit or the usual one."""
    from ocs_codesign.core.lp import Options

    return Options(time_limit_s=LIMIT_S if limit_s is None else limit_s, relative_gap=gap)


@command("cost", of=pod, short_help="What a collective costs on a slice, and at least on any.")
def cost_command(
    given: str = slice_argument,
    pod_name: str = pod_option,
    collective: str = collective_option("alltoall", "allgather", "reduce-scatter", "allreduce"),
    limit_s: float | None = limit_option,
) -> Answer:
    """Price a collective on a SLICE, and say what no permutations of its cubes are below.

    U is the time in which all pairs of chips exchange a unit, or all get a unit of each other, over
    links that carry a unit in a unit of time. An all-to-all is that of the best routing, others are
    those of BFB.

    \b
    Example:
      ocs-codesign pod cost 4x4x8_twisted
    """
    from ocs_codesign.fabric.pods.description import load_pod, slice_of
    from ocs_codesign.search.pods.cost import pod_cost

    described = load_pod(pod_name)
    slice_ = slice_of(given, described)
    with progress("Routing"):
        found = pod_cost(slice_.cube, slice_.circuits(), collective, options_of(limit_s))
    return answered("pod.cost", slice_, found, collective)
