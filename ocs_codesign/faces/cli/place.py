"""``ocs-codesign place``: which host every rank of a job is on, so that its groups take least."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import OUTPUT, argument, command, option
from ocs_codesign.faces.cli.output import Answer, answered
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.jobs.rank_orders import RankTraffic

# Spelled out, since importing the writers for a help text would take too long.
FORMATS = ("rankfile", "hostfile", "jax")


@command()
def place(
    job: str = argument("job", type=opt.INPUT, metavar="JOB"),
    network: str = argument("network"),
    seed: int = option("--seed", type=click.IntRange(0), default=0, help="Of the swaps."),
    out: str | None = option(
        "--out", type=OUTPUT, metavar="FILE", help="Write the order of ranks, in a --format."
    ),
    format_name: str = option(
        "--format",
        type=click.Choice(FORMATS),
        default=FORMATS[0],
        help="A rankfile of Open MPI; hosts in the order of ranks, for SLURM_HOSTFILE, mpirun or "
        "torchrun; or the devices of a JAX mesh.",
    ),
) -> Answer:
    """Find the order of ranks in which the groups of a JOB take least on a NETWORK.

    JOB is a job file as for iterate, or JSON with the groups of every class of communication and
    the bytes that a rank hands on: {"num_ranks": 8, "classes": [{"name": "data", "bytes":
    67108864, "groups": [[0, 2, 4, 6], [1, 3, 5, 7]]}]}. Collectives go round rings in the order of
    their groups, all-to-alls straight; groups of a class share links at the same time, classes
    follow each other.

    Up to 12 ranks all orders are tried, and the best is proven; of more the answer has the bound.
    The order that there is now, rank r on host r, stands beside it.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign place groups.yaml 'leaf_spine(2,2,1,1,1)' --out ranks
    """
    from ocs_codesign.jobs.files.rank_order_files import ORDER_FORMATS
    from ocs_codesign.jobs.rank_orders import rank_order

    given = opt.network_of(network)
    traffic = _traffic(job)
    with progress("Placing ranks"):
        found = rank_order(given, traffic, seed)
    files = {} if out is None else {out: ORDER_FORMATS[format_name][1](found).encode()}
    name = opt.printable(Path(job).name)
    return answered("place.order", name, opt.printable(network), found, files=files)


def _traffic(path: str) -> RankTraffic:
    """What the ranks of a job send, from a file of groups or of a job."""
    from ocs_codesign.core.cost import CostModel
    from ocs_codesign.core.files.archives import read_limited
    from ocs_codesign.core.files.plain_text import read_plain_text
    from ocs_codesign.jobs.files.job_files import MAX_JOB_BYTES, GivenMachine, load_job
    from ocs_codesign.jobs.files.rank_order_files import is_traffic, traffic_of_plain
    from ocs_codesign.jobs.rank_orders import traffic_of

    if Path(path).suffix.lower() == ".json":
        plain = read_plain_text(read_limited(Path(path), MAX_JOB_BYTES), path, is_json=True)
        if is_traffic(plain.value):
            return traffic_of_plain(plain, path)
    # What messages cost is of no matter here, only where they go; a file may say it nevertheless.
    unpriced = GivenMachine(CostModel(0.0, 1.0))
    problems = []
    for given in (unpriced, None):
        try:
            return traffic_of(load_job(path, given, ranks_alone=True).graph)
        except ValueError as error:
            problems.append(str(error))
    told = next((one for one in problems[::-1] if "--alpha" not in one), problems[0])
    raise ValueError(told if path in told else f"{path}: {told}")
