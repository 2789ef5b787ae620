"""Sends as CSV: what a spreadsheet, a script or a person reads, and what one can write by hand.

``NAME.sends.csv`` begins with a comment that is JSON, ``# {"collective": "allgather", "num_nodes":
4, "num_chunks": 1}`` (``root`` where it has one, ``num_hosts`` where not all nodes are hosts; of
messages between ranks ``num_items`` in the place of ``num_chunks``). Columns, in any order:

========== ==============================================================
``step``   from 1; in a step all is sent that was held before it
``source`` the node that sends, ``target`` the one that receives
``item``   the shard, or all that a rank sends in an all-to-all
``lo``     the first chunk of it, ``hi`` the one after the last (0 and 1)
``adds``   1 if what comes is added, 0 if it is kept (0)
``link``   which link it crosses (the only one from source to target)
========== ==============================================================

The last four may be missing, and are then as in brackets. ``NAME.links.csv`` beside it has a
``link`` a line, with ``source``, ``target`` and relative ``speed``; without it links are those that
are used, at one speed. ``records`` says how lines and cells are separated.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.collective import CUSTOM, Collective
from ocs_codesign.core.demand import SUM
from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import decoded, errors_at
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.files.records import RecordLayout, count_to, parse_records
from ocs_codesign.core.schedule import Messages, Schedule
from ocs_codesign.core.shown import shown
from ocs_codesign.core.topology import MAX_STEPS, Topology

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from ocs_codesign.core.plans import Plan
    from ocs_codesign.interop.registry import Contents, Export


SENDS, LINKS = ".sends.csv", ".links.csv"
MAX_CSV_BYTES = 128 * 2**20
MAX_SENDS = 2**21

_ABOUT = ("collective", "root", "num_nodes", "num_hosts", "num_chunks", "num_items")
_MAX_NODES = 2**20


@final
@dataclass(frozen=True, slots=True)
class _SendRow:
    """A line of sends; ``link`` is None where the two nodes say which it is."""

    step: int
    source: int
    target: int
    item: int
    lo: int = 0
    hi: int = 1
    adds: int = 0
    link: int | None = None


@final
@dataclass(frozen=True, slots=True)
class _LinkRow:
    """A line of links."""

    link: int
    source: int
    target: int
    speed: int = 1


_NODE, _NUMBER = count_to(_MAX_NODES, least=0), count_to(2**31 - 1, least=0)
LAYOUT: RecordLayout[_SendRow] = RecordLayout(
    whole="list of sends",
    record="send",
    fields={
        "step": ("step", count_to(MAX_STEPS)),
        "source": ("source", _NODE),
        "target": ("target", _NODE),
        "item": ("item", _NUMBER),
        "lo": ("lo", _NUMBER),
        "hi": ("hi", count_to(2**31 - 1)),
        "adds": ("adds", count_to(1, least=0)),
        "link": ("link", _NUMBER),
    },
    required=("step", "source", "target", "item"),
    make=_SendRow,
    most=MAX_SENDS,
    other="about",
)
"""Every column of sends."""

LINK_LAYOUT: RecordLayout[_LinkRow] = RecordLayout(
    whole="list of links",
    record="link",
    fields={
        "link": ("link", _NUMBER),
        "source": ("source", _NODE),
        "target": ("target", _NODE),
        "speed": ("speed", count_to(2**31 - 1)),
    },
    required=("link", "source", "target"),
    make=_LinkRow,
    most=MAX_SENDS,
    other="about",
)
"""Every column of links."""


def read_sends(path: Path) -> Plan:
    """The plan in a file of sends, with the links beside it if they are there.

    Raises OSError if a file cannot be read and ValueError, with the file, the line and the rule,
    for anything else; whether the plan is right is for ``verification`` to say.
    """
    data = read_limited(path, MAX_CSV_BYTES)
    links = path.with_name(path.name.removesuffix(SENDS) + LINKS)
    has_links = path.name.endswith(SENDS) and links.exists()
    table = (str(links), read_limited(links, MAX_CSV_BYTES)) if has_links else None
    return parse_sends(data, str(path), table)


def parse_sends(data: bytes, name: str, links: tuple[str, bytes] | None = None) -> Plan:
    """The plan of a content, with the name and the content of its links if there are any."""
    about = _about(data, name)
    placed = parse_records(data, name, LAYOUT, is_json=False)[0]
    rows = [row for _, row in placed]
    columns = {
        part: np.array([getattr(row, part) for row in rows], dtype=np.int64)
        for part in ("step", "source", "target", "item", "lo", "hi", "adds")
    }
    table = None if links is None else _links(*links)
    with errors_at(name):
        if about["num_nodes"] > max(2 * len(rows), 2):
            raise ValueError(f"{about['num_nodes']} nodes, but only {len(rows)} sends")
        collective = _collective(about)
        if "num_items" in about:
            return _messages(about, collective, columns, rows)
        return _schedule(about, collective, columns, rows, table)


def _about(data: bytes, name: str) -> dict[str, Any]:
    """What the first line says of the whole."""
    first = decoded(data[:4096], name).split("\n", 1)[0] if data[:1] else ""
    if not first.startswith("#"):
        raise ValueError(
            f'{name}, line 1: a file of sends begins with # {{"collective": "allgather", '
            '"num_nodes": 4, "num_chunks": 1}'
        )
    about = read_plain_text(first[1:].strip().encode(), f"{name}, line 1", is_json=True).value
    with errors_at(f"{name}, line 1"):
        if not isinstance(about, dict):
            raise ValueError(f"{shown(about)} is no JSON object")
        for key, value in about.items():
            if key not in _ABOUT:
                raise ValueError(f"{shown(key)} is not known: known are {', '.join(_ABOUT)}")
            if type(value) is not (str if key == "collective" else int):
                raise ValueError(f"{key} is {shown(value)}")
        for key in ("collective", "num_nodes"):
            if key not in about:
                raise ValueError(f"{key} is missing")
        if ("num_chunks" in about) == ("num_items" in about):
            raise ValueError("num_chunks is of schedules, num_items of messages: one is given")
    return about


def _collective(about: dict[str, Any]) -> Collective:
    name, root = about["collective"], about.get("root")
    return Collective.parse(name) if root is None else Collective(name, root)


def _messages(
    about: dict[str, Any],
    collective: Collective,
    columns: dict[str, NDArray[np.int64]],
    rows: list[_SendRow],
) -> Messages:
    if any(row.link is not None for row in rows) or set(columns["lo"].tolist()) - {0}:
        raise ValueError("messages are of whole items between ranks: no link, no lo")
    if set(columns["hi"].tolist()) - {1}:
        raise ValueError("messages are of whole items between ranks: no hi")
    return Messages(
        about["num_nodes"],
        collective,
        about["num_items"],
        columns["step"],
        columns["source"],
        columns["target"],
        columns["item"],
        columns["adds"].astype(bool),
    )


def _schedule(
    about: dict[str, Any],
    collective: Collective,
    columns: dict[str, NDArray[np.int64]],
    rows: list[_SendRow],
    table: list[tuple[str, _LinkRow]] | None,
) -> Schedule:
    nodes, hosts = about["num_nodes"], about.get("num_hosts", about["num_nodes"])
    topology, link = (
        _used_links(nodes, columns, rows) if table is None else _listed_links(nodes, rows, table)
    )
    if collective.name == "alltoall" and hosts**2 > 2**27:
        raise ValueError(f"{hosts} hosts: an all-to-all of so many is not read")
    adds = columns["adds"] > 0
    phase = 1 - columns["adds"] if collective.name == "allreduce" else None
    four = columns["item"], columns["lo"], columns["hi"], link
    chunks = about["num_chunks"]
    plan = Schedule(*(topology, collective, chunks, *four, columns["step"], phase), num_hosts=hosts)
    sums = collective.name in ("reduce-scatter", "reduce")
    if phase is None and (adds != sums).any():
        told = "adds" if sums else "keeps"
        raise ValueError(f"in {collective.name} everybody {told} what comes: adds says otherwise")
    return plan


def _used_links(
    nodes: int, columns: dict[str, NDArray[np.int64]], rows: list[_SendRow]
) -> tuple[Topology, NDArray[np.int64]]:
    """Links as sends name them, or the pair of nodes that each is between, numbered from 0."""
    pair = columns["source"] * (_MAX_NODES + 1) + columns["target"]
    named = [row.link for row in rows if row.link is not None]
    if named and len(named) < len(rows):
        raise ValueError("either all sends say over which link they go, or none")
    key = np.array(named, dtype=np.int64) if named else pair
    _, first, link = np.unique(key, return_index=True, return_inverse=True)
    if (pair[first][link] != pair).any():
        row = int((pair[first][link] != pair).argmax())
        raise ValueError(f"send {row}: link {key[row]} has other ends in another send")
    return Topology(nodes, columns["source"][first], columns["target"][first]), link


def _listed_links(
    nodes: int, rows: list[_SendRow], table: list[tuple[str, _LinkRow]]
) -> tuple[Topology, NDArray[np.int64]]:
    listed = [row for _, row in table]
    for at, (place, given) in enumerate(table):
        if given.link != at:
            raise ValueError(f"{place}: link {given.link} is in the place of link {at}")
    ends = [(each.source, each.target) for each in listed]
    only: dict[tuple[int, int], int | None] = {}
    for at, pair in enumerate(ends):
        only[pair] = None if pair in only else at
    link = np.empty(len(rows), dtype=np.int64)
    for at, row in enumerate(rows):
        wanted = only.get((row.source, row.target)) if row.link is None else row.link
        if wanted is None or wanted >= len(ends) or ends[wanted] != (row.source, row.target):
            what = "no one link" if row.link is None else f"no link {row.link}"
            raise ValueError(f"send {at}: there is {what} from {row.source} to {row.target}")
        link[at] = wanted
    return Topology(nodes, *_columns(ends), [each.speed for each in listed]), link


def _columns(ends: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    tail, head = zip(*ends, strict=True)
    return list(tail), list(head)


def _links(name: str, data: bytes) -> list[tuple[str, _LinkRow]]:
    table = parse_records(data, name, LINK_LAYOUT, is_json=False)[0]
    if not table:
        raise ValueError(f"{name}: there are no links")
    return table


# Sends written as CSV, as ``sends_csv`` reads it.


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
