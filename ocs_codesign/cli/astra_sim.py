"""``ocs-codesign astra-sim``: what ASTRA-sim says of a design, beside our clock."""

from __future__ import annotations

from pathlib import Path

import click

from ocs_codesign.cli.export import exported_design
from ocs_codesign.cli.file_options import FILE
from ocs_codesign.cli.message_options import message_option_of
from ocs_codesign.cli.options import (
    GATHERING,
    bandwidth_option_of,
    collective_choice,
    json_option,
    quantity_option,
)
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress
from ocs_codesign.quantities import exact, parse_time

NEGATIVE = 1


@click.command(short_help="Ask ASTRA-sim how long a design takes, beside our clock.")
@click.argument("design", type=FILE, metavar="DESIGN")
@click.option(
    *("--astra-sim", "binary"),
    type=FILE,
    metavar="FILE",
    help="The congestion-aware analytical build (default: what OCS_CODESIGN_ASTRA_SIM names).",
)
@collective_choice(*GATHERING)
@message_option_of(required=True)
@bandwidth_option_of("Largest total egress of a host, such as 100Gbps.", required=True)
@quantity_option("--latency", parse_time, "Latency of every link (default: 0s).")
@quantity_option("--time-limit", parse_time, "Longest run of ASTRA-sim (default: 600s).")
@json_option
def astra_sim(
    design: str,
    binary: str | None,
    collective: str,
    message: float,
    bandwidth: float,
    latency: float | None,
    time_limit: float | None,
    json_path: str | None,
) -> int:
    """Run a DESIGN that build saved, or a RECIPE's best schedule, in ASTRA-sim.

    It is exported as a collective of one's own over links of its own (export --to astra-sim writes
    the same files), and simulated by our clock by the same rules. Links are alike, one a pair of
    ranks. Without a binary that part is skipped, and the answer says why. Exit code 1 if ASTRA-sim
    fails, or not every rank says that it finished.

    \b
    Example:
      ocs-codesign astra-sim 'Torus((3,3))' --message 9MiB --bandwidth 400Gbps --latency 500ns
    """
    check_outputs(json_path)
    from ocs_codesign.answers.astra_sim import opinion_json, opinion_sections
    from ocs_codesign.execute.astra_sim import FAILED, TIME_LIMIT_S, second_opinion

    limit = TIME_LIMIT_S if time_limit is None else float(time_limit)
    with progress("Simulating"):
        export = exported_design(
            design,
            collective,
            (message, bandwidth, None if latency is None else exact(latency)),
            in_place=False,
        )
        opinion = second_opinion(export, None if binary is None else Path(binary), limit)
    emit(opinion_json(opinion), json_path, opinion_sections(opinion))
    return NEGATIVE if opinion.run.status == FAILED else 0
