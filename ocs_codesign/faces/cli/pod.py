"""``ocs-codesign pod``: slices of pods whose cubes are fixed and whose circuits are free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ocs_codesign.core.quantities import parse_time
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import OUTPUT, OptionGroup, argument, command, group, option
from ocs_codesign.faces.cli.output import Answer, answered
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.core.lp import Options

LIMIT_S = 120.0


@click.group()
def pod() -> None:
    """Price, design, pack and repair slices of a pod, whose cubes optical switches join.

    A SLICE is a shape in chips (8x8x16, 8x8x16_twisted), rows: of a lattice of cubes, a recipe, or
    a JSON file {"cubes": k, "permutations": p} where p[d][q][c] is the cube whose -
    port the + port of cube c is joined to by switch d:q.

    \b
    Example:
      ocs-codesign pod cost 4x4x8_twisted
    """


slice_argument = argument("given", metavar="SLICE")
pod_option = option(
    "--pod", "pod_name", default="tpu-v4", metavar="NAME|FILE", help="The pod, by name or as TOML."
)


limit_option = opt.quantity_option(
    "--time-limit", parse_time, f"Time for solving, such as 60s (default: {LIMIT_S:g}s)."
)


def options_of(limit_s: float | None) -> Options:
    """Options of a solver with this limit or the usual one."""
    from ocs_codesign.core.lp import Options

    return Options(time_limit_s=LIMIT_S if limit_s is None else limit_s)


@command("cost", of=pod, short_help="What a collective costs on a slice, and at least on any.")
def cost_command(
    given: str = slice_argument,
    pod_name: str = pod_option,
    collective: str = opt.collective_choice(opt.ALLTOALL, *opt.GATHERING, short="-c"),
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


FAMILIES = ("lattice", "lift")


class DesignOptions(OptionGroup):
    """Which slices are looked for, and for how long."""

    cubes: int = option("--cubes", type=click.IntRange(1), required=True, help="Cubes.")
    pod_name: str = pod_option
    collective: str = opt.collective_choice(opt.ALLTOALL, "allgather", short="-c")
    family: str | None = option(
        "--family",
        type=click.Choice(FAMILIES),
        help="Only lattices, whose chips are all alike, or only lifts (default: both).",
    )
    limit_s: float | None = opt.quantity_option(
        "--time-limit", parse_time, "Time for lifts at most, such as 120s (default: 60s)."
    )
    seed: int = option("--seed", type=click.IntRange(0), default=0, help="Of the search.")
    fresh: bool = option("--fresh", is_flag=True, help="Without the lifts that are known.")
    out: str | None = option(
        "--out", type=OUTPUT, metavar="FILE", help="Write the permutations of the best as JSON."
    )


@command("design", of=pod, short_help="The best slice of so many cubes that is found.")
def design_command(given: DesignOptions = group(DesignOptions)) -> Answer:
    """Find permutations of so many cubes with the least cost of a collective.

    All lattices are looked at, so that none is better than the best one; then lifts are searched,
    where other positions of a face have other permutations. No permutations at all are below the
    bound that the answer has.

    \b
    Example:
      ocs-codesign pod design --cubes 2 --family lattice
    """
    from ocs_codesign.fabric.pods.description import load_pod, slice_json
    from ocs_codesign.search.pods.design import best_lattices, best_lifts

    described = load_pod(given.pod_name)
    described.check_cubes(given.cubes)
    found = []
    with progress("Designing a slice"):
        asked = described.cube, given.cubes, given.collective
        if given.family != FAMILIES[1]:
            found += best_lattices(*asked, options_of(None))
        if given.family != FAMILIES[0] and given.cubes > 1:
            found += best_lifts(*asked, options_of(given.limit_s or 60.0), given.seed, given.fresh)
    found.sort(key=lambda design: (design.cost.t_b, design.cost.steps))
    files = {} if given.out is None else {given.out: slice_json(found[0].slice)}
    return answered("pod.design", found[0], found, given.collective, files=files)


class PodSurviveOptions(OptionGroup):
    """What is lost of which slice, and what is asked of the rest."""

    given: str = slice_argument
    lost: str = option(
        "--lost",
        required=True,
        metavar="PART",
        help="switch:d:q, port:d:q:+c or port:d:q:-c of a cube c, or cube:c.",
    )
    anew: bool = option("--anew", is_flag=True, help="Choose the circuits that are left anew.")
    virtual_channels: bool = option(
        "--virtual-channels",
        is_flag=True,
        help="Give every hop one of as few virtual channels as free these paths of deadlock.",
    )
    pod_name: str = pod_option
    limit_s: float | None = limit_option
    seed: int = option("--seed", type=click.IntRange(0), default=0, help="Of the search.")


@command("survive", of=pod, short_help="What an all-to-all costs when a part is lost.")
def survive_command(given: PodSurviveOptions = group(PodSurviveOptions)) -> Answer:
    """Price the all-to-all of a SLICE without a switch, a port or a cube.

    Circuits are kept, or with --anew those of the other switches are chosen anew where that is
    better; then the answer says which change, and in which order of switches, such that all cubes
    stay joined. A cube that is lost is replaced by any that works. With --virtual-channels there
    are paths free of deadlock, before and after.

    \b
    Example:
      ocs-codesign pod survive 4x4x8 --lost switch:2:5
    """
    from ocs_codesign.fabric.pods.description import load_pod, slice_of
    from ocs_codesign.fabric.pods.survival import survived, with_paths

    slice_, options = slice_of(given.given, load_pod(given.pod_name)), options_of(given.limit_s)
    with progress("Routing"):
        found = survived(slice_, given.lost, given.anew, options, given.seed)
        if given.virtual_channels:
            found = with_paths(slice_, given.lost, found, options)
    return answered("pod.survive", found, given.lost)


failed_option = option("--failed", metavar="CUBES", help="Cubes that do not work: 3,17.")


def cubes_of(text: str | None, name: str) -> list[int]:
    """The numbers of cubes in a text, none where it is None; UsageError if it has others.

    >>> cubes_of("3,17", "--failed"), cubes_of(None, "--failed")
    ([3, 17], [])
    """
    try:
        return [] if text is None else [int(cube) for cube in text.split(",")]
    except ValueError:
        raise click.UsageError(f"{name} has {text!r}: cubes are numbers, as in 3,17") from None


@command("pack", of=pod, short_help="Place jobs on the cubes that work.")
def pack_command(
    jobs: str = argument("jobs", type=opt.INPUT, metavar="JOBS.csv"),
    failed: str | None = failed_option,
    boxes: bool = option("--boxes", is_flag=True, help="Slices are boxes of neighbouring cubes."),
    wrap: bool = option("--wrap", is_flag=True, help="Boxes that may run round the end."),
    pod_name: str = pod_option,
) -> Answer:
    """Place slices of jobs on cubes that work, as many cubes as can be, proven.

    JOBS.csv has the columns shape (in cubes, such as 1x2x2), most (how many slices) and perhaps
    job. A slice takes any cubes, since switches join them; with --boxes it takes neighbours.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign pod pack pod_jobs.csv --failed 3,17
    """
    from ocs_codesign.fabric.pods.description import load_pod
    from ocs_codesign.fabric.pods.packing import pack_anywhere, pack_boxes, read_jobs

    described, asked = load_pod(pod_name), read_jobs(jobs)
    lost = cubes_of(failed, "--failed")
    is_box = boxes or wrap
    found = (
        pack_boxes(asked, described, lost, wrap)
        if is_box
        else pack_anywhere(asked, described, lost)
    )
    return answered("pod.pack", found, described)


@command("goodput", of=pod, short_help="The share of a pod that slices of a size can use.")
def goodput_command(
    cubes: int = option("--cubes", type=click.IntRange(1), required=True, help="Of a slice."),
    availability: str = option(
        "--availability", required=True, metavar="RATIO", help="Of a host, such as 0.99."
    ),
    pod_name: str = pod_option,
) -> Answer:
    """Work out the share of all cubes that work in slices of so many.

    A cube works if all its hosts do, each by itself with the availability; any cubes that work make
    a slice.

    \b
    Example:
      ocs-codesign pod goodput --cubes 8 --availability 0.99
    """
    from ocs_codesign.core.quantities import parse_number
    from ocs_codesign.fabric.pods.description import load_pod
    from ocs_codesign.fabric.pods.packing import goodput

    try:
        share = parse_number(availability, "it must be a ratio such as 0.99")
    except ValueError as error:
        raise click.UsageError(f"--availability is {error}") from None
    described = load_pod(pod_name)
    return answered("pod.goodput", goodput(described, cubes, share), cubes, share, described)
