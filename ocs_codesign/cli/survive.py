"""``ocs-codesign survive``: what single losses leave of a recipe on a fabric, and its repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ocs_codesign.answers.refusal import refusal_json, refusal_text
from ocs_codesign.answers.survive import (
    repair_json,
    repair_sections,
    survivability_json,
    survivability_sections,
)
from ocs_codesign.cli.options import GATHERING, fabric_option, json_option, prefer_option
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.fabric.repairs.repair import Port

# Spelled out, since importing ocs_codesign.fabric for a help text would take too long.
KINDS = ("plane", "switch", "link", "host")
LOST = "host:NAME, switch:NAME or port:SWITCH:1A"


@click.command(short_help="What every single loss leaves, and how to repair one.")
@click.argument("recipe")
@fabric_option
@click.option(
    "--kinds", metavar="LIST", help=f"Losses to look at, of {','.join(KINDS)} (default: all)."
)
@click.option(
    "--collective",
    type=click.Choice(GATHERING, case_sensitive=False),
    default="allgather",
    show_default=True,
    help="What the steps and t_b are of.",
)
@prefer_option
@click.option(
    "--repair", "lost", metavar="LOST", multiple=True, help=f"Repair the loss of {LOST}; repeat it."
)
@json_option
def survive(
    recipe: str,
    fabric_path: str,
    kinds: str | None,
    collective: str,
    prefer: str,
    lost: tuple[str, ...],
    json_path: str | None,
) -> int:
    """Lose every plane, switch, circuit and host of RECIPE on a fabric, one at a time.

    Nothing is rewired: BFB is generated anew on what is left, and its exact cost is shown in units
    of M/B, with B the egress of a node before the loss. With --repair, all that is named is lost
    at once, and the same topology is made again with spare hosts, ports and planes: which strands
    move and which cross-connects change. Exit code 1 if a loss of a kind that was looked at
    disconnects nodes, or if it does not fit or cannot be repaired.

    \b
    Example:
      ocs-codesign fabric example --hosts 16 --planes 4 > fabric.yaml
      ocs-codesign survive 'GeneralizedKautz(4, 16)' --fabric fabric.yaml --kinds plane
    """
    if lost and kinds is not None:
        raise click.UsageError("--kinds is for single losses: with --repair, name what is lost")
    check_outputs(json_path)
    from ocs_codesign.fabric.embed.embedding import embed
    from ocs_codesign.fabric.infeasible import InfeasibleError
    from ocs_codesign.fabric.repairs.repair import repair
    from ocs_codesign.fabric.survival.losses import survivability
    from ocs_codesign.formats.fabric.fabric_files import load_fabric
    from ocs_codesign.graphs.text import parse

    losses, wanted, verdict = _lost(lost), _kinds(kinds), "fits"
    with progress("Embedding") as shown:
        try:
            topology = parse(recipe).topology()
            embedding = embed(load_fabric(fabric_path), topology, prefer=prefer)
            if lost:
                verdict = "repaired"
                made = repair(embedding, *losses)
                emit(repair_json(made), json_path, repair_sections(made))
                return 0
        except InfeasibleError as error:
            emit(refusal_json(error, verdict), json_path, [refusal_text(error, verdict)])
            return 1
        shown.tell_phase("Losing one at a time")
        configuration = embedding.configuration
        survival = survivability(configuration, wanted, collective, on_progress=shown.tell)
    emit(survivability_json(survival), json_path, survivability_sections(survival))
    return 0 if all(loss.left.is_connected for loss in survival.losses) else 1


def _kinds(text: str | None) -> tuple[str, ...]:
    if text is None:
        return KINDS
    kinds = tuple(kind.strip() for kind in text.split(","))
    for kind in kinds:
        if kind not in KINDS:
            raise click.UsageError(f"--kinds has {kind!r}: it must be of {', '.join(KINDS)}")
    return kinds


def _lost(texts: Sequence[str]) -> tuple[list[str], list[Port], list[str]]:
    from ocs_codesign.fabric.repairs.repair import Port

    hosts: list[str] = []
    switches: list[str] = []
    ports: list[Port] = []
    for text in texts:
        what, _, name = text.partition(":")
        if what in ("host", "switch") and name:
            (hosts if what == "host" else switches).append(name)
        else:
            switch, _, end = name.rpartition(":")
            number, side = end[:-1], end[-1:].upper()
            plain = number.isascii() and number.isdigit() and len(number) < 10
            if what != "port" or not switch or not plain or side not in ("A", "B"):
                raise click.UsageError(f"--repair is {text!r}: it must be {LOST}")
            ports.append(Port(switch, side, int(number)))
    return hosts, ports, switches
