"""``ocs-codesign exhaust``: every topology of a small size, and what none of them beats."""

from __future__ import annotations

import click

from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress


@click.command(short_help="Prove a small frontier by all topologies there are.")
@click.option("--nodes", "num_nodes", type=int, required=True, help="Number of nodes N.")
@click.option("--degree", type=int, required=True, help="Ports of a node d.")
@click.option(
    "--bidirectional", is_flag=True, help="Only topologies with every link in both directions."
)
@click.option("--simple", is_flag=True, help="Leave out loops and parallel links.")
@click.option("--alltoall", is_flag=True, help="Solve all-to-all too: seconds to many minutes.")
@json_option
def exhaust(
    num_nodes: int,
    degree: int,
    bidirectional: bool,
    simple: bool,
    alltoall: bool,
    json_path: str | None,
) -> None:
    """Look at every topology of a small size, and show what none of them beats.

    Each is made once up to the names of its nodes and scored by exact BFB, so the frontier is
    proven. What took long is stored: 'frontier' says what is proven of its designs. Links are
    one-way unless --bidirectional. Loops and parallel links count unless --simple, but no loops
    where links are two-way.

    \b
    Example:
      ocs-codesign exhaust --nodes 6 --degree 2
    """
    check_outputs(json_path)
    from ocs_codesign.answers.exhaustion import exhaustion_json, exhaustion_sections
    from ocs_codesign.question import Question
    from ocs_codesign.search.exhaustion.visits import exhaust as look_at_all

    with progress("Looking at all topologies") as shown:
        found = look_at_all(
            Question(num_nodes, degree, bidirectional),
            simple=simple,
            alltoall=alltoall,
            on_progress=lambda classes: shown.tell_phase(f"{classes:,} topologies"),
        )
    emit(exhaustion_json(found), json_path, exhaustion_sections(found))
