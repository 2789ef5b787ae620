"""Options of classic algorithms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.faces.cli.commands import option

if TYPE_CHECKING:
    from collections.abc import Mapping


ROOTED = ("broadcast", "reduce")
"""Collectives with a root that classic algorithms make."""


option_option = option(
    *("--option", "options"),
    multiple=True,
    metavar="NAME=VALUE",
    help="Option of a classic algorithm, such as radix=3, dims=4,4 or first=near, or its rank map: "
    "rank_to_node=identity, snake, gray, search (with seed=1) or the node of every rank.",
)


routing_option = option(
    "--routing",
    type=click.Choice(["even", "lowest"]),
    help="Of a classic algorithm's messages: split over all shortest paths (default), or take the "
    "lowest-numbered neighbour.",
)


def classic_names() -> Mapping[str, Any]:
    """All classic algorithms by name."""
    from ocs_codesign.schedules.classic.registry import CLASSIC

    return CLASSIC
