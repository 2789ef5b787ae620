"""``ocs-codesign catalogue alltoall``: all-to-all times of what is stored, and better designs."""

from __future__ import annotations

from pathlib import Path

import click

from ocs_codesign.cli.catalogue_gaps import sizes_options
from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.sweep import filled_option, questions_of, seed_option
from ocs_codesign.cli.workers import long_work, workers_options


@click.command("alltoall", short_help="Store all-to-all times.")
@sizes_options("2-64")
@filled_option("The catalogue to add them to.")
@workers_options
@seed_option
@click.option(
    "--effort",
    "factor",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Search for better designs: 1 is what frontier does, 0 only times what is stored.",
)
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="Begin no size after so long."
)
@json_option
def alltoall_command(
    nodes: range,
    degrees: range,
    links: str,
    path: str,
    workers: int | None,
    dask: str | None,
    seed: int,
    factor: int,
    seconds: float | None,
    json_path: str | None,
) -> None:
    """Work out how long an all-to-all takes on what a catalogue has, and keep it there.

    The time is the least there is when messages may split over paths, in units of M/B, exact and
    proven. It is worked out where that takes about a second: for designs of few orbits of links, as
    vertex-transitive ones are, and for small ones, up to about 60 nodes. Then designs that serve
    all-to-all better are searched for, and added where no stored one beats them. The smallest sizes
    come first; what is there is not done again, so a run that was interrupted goes on where it was.
    'frontier --collective alltoall' answers such sizes at once.

    \b
    Example:
      ocs-codesign sweep --nodes 2-6 --degrees 2 --catalogue mine.sqlite
      ocs-codesign catalogue alltoall --nodes 2-6 --degrees 2 --catalogue mine.sqlite
    """
    check_outputs(json_path)
    from ocs_codesign.answers.catalogue import timed_facts, timed_json
    from ocs_codesign.search.alltoall.passes import PASS_WORK, time_alltoall
    from ocs_codesign.search.effort import Effort

    if not Path(path).exists():
        raise ValueError(f"there is no catalogue at {path}")
    kept = f"the times so far are kept in {path}"
    with long_work("Solving all-to-alls", kept, workers, dask) as (shown, executor, number):
        answer = time_alltoall(
            Path(path),
            questions_of(nodes, degrees, links),
            executor,
            number,
            effort=Effort(seed=seed, work=factor * PASS_WORK),
            seconds=seconds,
            on_progress=shown.tell,
        )
    emit(timed_json(answer, path), json_path, [timed_facts(answer, path)])
