"""Ways to spoil a program of ranks, each in one operation, and whether that does harm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from race_oracle import races
from rank_program_oracle import StuckError, UncleanError, run

from ocs_codesign.core.collective import CUSTOM
from ocs_codesign.core.plans import (
    ADD,
    COLUMNS,
    COPY,
    GET,
    NOP,
    PUT,
    RECEIVE,
    RECEIVE_ADD,
    SEND,
    SIGNAL,
    WAIT,
    RankProgram,
)

Rows = list[dict]
"""Operations as dicts of their columns; "needs" are such dicts themselves."""

RUNS = 4


def rows_of(program: RankProgram) -> Rows:
    rows: Rows = [{} for _ in range(program.num_operations)]
    for o, row in enumerate(rows):
        row.update({name: int(getattr(program, name)[o]) for name in COLUMNS})
        begin, end = program.need_start[o : o + 2]
        row["needs"] = [rows[n] for n in program.need[begin:end]]
    return rows


def program_of(program: RankProgram, rows: Rows) -> RankProgram:
    """The rows as a program like another; ValueError if they are none."""
    number = {id(row): o for o, row in enumerate(rows)}
    needs = [[number[id(n)] for n in row["needs"] if id(n) in number] for row in rows]
    collective = program.collective
    return RankProgram(
        program.demands[0] if collective.name == CUSTOM else collective,
        program.num_ranks,
        program.chunks_per_unit,
        program.in_place,
        program.scratch,
        {name: [row[name] for row in rows] for name in COLUMNS},
        np.cumsum([0, *map(len, needs)]),
        [n for of in needs for n in of],
    )


def _shift(name, kinds):
    def mutate(rows, o, random):
        rows[o][name] = max(0, rows[o][name] + random.choice([-2, -1, 1, 2, 3]))

    return mutate, kinds


def _other(name, most, kinds):
    """Another value below the present largest, or below ``most``."""

    def mutate(rows, o, random):
        end = max(most, 1 + max(row[name] for row in rows))
        rows[o][name] = random.choice([v for v in range(end) if v != rows[o][name]])

    return mutate, kinds


def drop(rows, o, _):
    del rows[o]


def double(rows, o, _):
    rows.insert(o + 1, {**rows[o], "needs": list(rows[o]["needs"])})


def drop_need(rows, o, random):
    if rows[o]["needs"]:
        rows[o]["needs"].pop(random.randrange(len(rows[o]["needs"])))


def swap(rows, o, random):
    """Two operations of a rank change places, streams and needs staying with what they do."""
    others = [i for i, row in enumerate(rows) if row["rank"] == rows[o]["rank"] and i != o]
    other = random.choice(others) if others else o
    rows[o], rows[other] = rows[other], rows[o]


def trade_slots(rows, o, random):
    """Two operations of a kind and a rank change what they read and write."""
    alike = [r for r in rows if (r["rank"], r["kind"]) == (rows[o]["rank"], rows[o]["kind"])]
    other = random.choice(alike)
    for name in ("source_buffer", "source", "target_buffer", "target"):
        rows[o][name], other[name] = other[name], rows[o][name]


def keep_or_add(rows, o, _):
    other = {RECEIVE: RECEIVE_ADD, RECEIVE_ADD: RECEIVE, COPY: ADD, ADD: COPY}
    rows[o]["kind"] = other[rows[o]["kind"]]


def change_needs(rows, o, random):
    """It needs another earlier operation of its rank instead."""
    earlier = [row for row in rows[:o] if row["rank"] == rows[o]["rank"]]
    if earlier and rows[o]["needs"]:
        rows[o]["needs"][random.randrange(len(rows[o]["needs"]))] = random.choice(earlier)


BETWEEN = (SEND, RECEIVE, RECEIVE_ADD, PUT, GET)
READ = (SEND, COPY, ADD, PUT, GET)
"""What names a source, and below what names a target."""
WRITE = (RECEIVE, RECEIVE_ADD, COPY, ADD, PUT, GET)
TAKEN = (RECEIVE, RECEIVE_ADD, COPY, ADD)
EVERY = tuple(range(10))

MUTATIONS: dict[str, tuple[Callable, tuple[int, ...]]] = {
    "source": _shift("source", READ),
    "target": _shift("target", WRITE),
    "count": _shift("count", (*BETWEEN, COPY, ADD)),
    "peer": _other("peer", 2, (*BETWEEN, SIGNAL, WAIT)),
    "channel": _other("channel", 3, (*BETWEEN, SIGNAL, WAIT)),
    "source buffer": _other("source_buffer", 3, READ),
    "target buffer": _other("target_buffer", 3, WRITE),
    "stream": _other("stream", 4, EVERY),
    "drop": (drop, EVERY),
    "double": (double, EVERY),
    "drop need": (drop_need, EVERY),
    "change needs": (change_needs, EVERY),
    "swap": (swap, EVERY),
    "trade slots": (trade_slots, EVERY),
    "keep or add": (keep_or_add, TAKEN),
}


def mutant(program: RankProgram, name: str, random) -> RankProgram | None:
    """The program spoiled in that way somewhere; None if that is no program any more, or the same.

    A need that comes after what needs it, or a rank out of turn, cannot even be written down.
    """
    mutate, kinds = MUTATIONS[name]
    at = np.flatnonzero(np.isin(program.kind, kinds) & (program.kind != NOP))
    if name == "drop need":
        at = at[np.diff(program.need_start)[at] > 0]
    if not len(at):
        return None
    rows = rows_of(program)
    mutate(rows, int(random.choice(at.tolist())), random)
    try:
        spoiled = program_of(program, rows)
    except ValueError:
        return None
    return None if spoiled == program else spoiled


def in_bounds(program: RankProgram) -> bool:
    sizes = program.buffer_sizes()
    for o in range(program.num_operations):
        kind, rank, count = (int(c[o]) for c in (program.kind, program.rank, program.count))
        there = int(program.peer[o]) if kind in (PUT, GET) else rank
        if kind in READ:
            buffer = sizes[program.source_buffer[o]]
            if program.source[o] + count > buffer[rank]:
                return False
        if kind in WRITE:
            buffer = sizes[program.target_buffer[o]]
            if program.target[o] + count > buffer[there]:
                return False
    return True


def does_harm(program: RankProgram, seed: int, depth: int | None = None) -> bool:
    """Whether a run ends wrongly or not at all, or operations race; by the slow oracles."""
    if not in_bounds(program) or races(program) != {}:
        return True
    try:
        return not all(run(program, seed + turn, depth) for turn in range(RUNS))
    except (StuckError, UncleanError):
        return True
