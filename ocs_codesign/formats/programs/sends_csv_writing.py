"""Sends written as CSV, as ``sends_csv`` reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ocs_codesign.collective import CUSTOM
from ocs_codesign.demand import SUM
from ocs_codesign.formats.programs.sends_csv import LINKS, SENDS
from ocs_codesign.messages import Messages

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.formats.programs.export import Contents, Export
    from ocs_codesign.schedule import Schedule


def write_sends(export: Export) -> Contents:
    """The sends of a plan, and of a schedule its links.

    Raises ValueError for unequal sizes, groups and demands of one's own, which a table of sends
    does not say.
    """
    plan, name = export.plan, export.name
    collective = plan.collective
    if collective.name == CUSTOM or collective.sizes is not None or collective.groups is not None:
        raise ValueError(
            f"{collective.text}: CSV carries equal shards of one group: use json or npz"
        )
    about: dict[str, Any] = {"collective": collective.name}
    if collective.root is not None:
        about["root"] = collective.root
    if isinstance(plan, Messages):
        about |= {"num_nodes": plan.num_ranks, "num_items": plan.num_items}
        columns: dict[str, NDArray[Any]] = {
            "step": plan.step,
            "source": plan.source,
            "target": plan.target,
            "item": plan.item,
            "adds": plan.adds.astype(np.int8),
        }
        return {f"{name}{SENDS}": _text(columns, f"# {json.dumps(about)}\n")}
    links = plan.topology
    about["num_nodes"] = links.num_nodes
    if plan.num_hosts < links.num_nodes:
        about["num_hosts"] = plan.num_hosts
    about["num_chunks"] = plan.num_chunks
    columns = {
        "step": plan.step,
        "source": links.tail[plan.link],
        "target": links.head[plan.link],
        "item": plan.item,
        "lo": plan.lo,
        "hi": plan.hi,
        "adds": _adds(plan).astype(np.int8),
        "link": plan.link,
    }
    table: dict[str, NDArray[Any]] = {
        "link": np.arange(links.num_links),
        "source": links.tail,
        "target": links.head,
        "speed": links.speeds(),
    }
    return {
        f"{name}{SENDS}": _text(columns, f"# {json.dumps(about)}\n"),
        f"{name}{LINKS}": _text(table, ""),
    }


def _adds(schedule: Schedule) -> NDArray[np.bool_]:
    """Whether what each send brings is added up."""
    if schedule.phase is not None:
        adds: NDArray[np.bool_] = schedule.phase == 0
    else:
        adds = schedule.demands[0].kind[schedule.item] == SUM
    return adds


def _text(columns: dict[str, NDArray[Any]], before: str) -> bytes:
    rows = zip(*(map(str, column.tolist()) for column in columns.values()), strict=True)
    lines = [",".join(columns), *map(",".join, rows)]
    return (before + "\n".join(lines) + "\n").encode()
