"""Steps of a schedule in formats that have none: said where they do not follow from the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.formats.programs.msccl_order import levels
from ocs_codesign.rank_program import GET, PUT, RECEIVE, RECEIVE_ADD, SEND, SIGNAL, WAIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ocs_codesign.rank_program import RankProgram


def steps_follow(program: RankProgram) -> bool:
    """Whether the steps of all that is sent are what a reader finds without them, or are unknown.

    That is the number of messages, one after the other, behind which a send is, counted without
    those numbers that no send has.
    """
    moves = _moves(program)
    if moves is None:
        return True
    first = np.zeros(program.num_operations, dtype=np.int64)
    behind = _last(program, first, counts=True)[moves]
    found = np.unique(behind, return_inverse=True)[1] + 1
    return bool((found == program.step[moves]).all())


def steps_hold(program: RankProgram) -> bool:
    """Whether nothing is sent in the step of a message that it waits for, or before, if known."""
    moves = _moves(program)
    if moves is None:
        return True
    arrived = _last(program, program.step.astype(np.int64), counts=False)
    return bool((arrived[moves] < program.step[moves]).all())


def _moves(program: RankProgram) -> NDArray[np.bool_] | None:
    """What sends, None if there is no step of all that does."""
    moves = np.isin(program.kind, (SEND, PUT, GET))
    return moves if moves.any() and (program.step[moves] > 0).all() else None


def _last(program: RankProgram, own: NDArray[np.int64], *, counts: bool) -> NDArray[np.int64]:
    """Of every operation the largest number that came with the messages that it is after.

    A message brings the ``own`` number of what sends it or, if it ``counts``, one more than came
    there. Of what never begins it is any number.
    """
    count = program.num_operations
    order = np.lexsort((program.stream, program.rank))
    same = (np.diff(program.rank[order]) == 0) & (np.diff(program.stream[order]) == 0)
    owner = np.repeat(np.arange(count), np.diff(program.need_start))
    met = [_met(program, (SEND,), (RECEIVE, RECEIVE_ADD)), _met(program, (SIGNAL,), (WAIT,))]
    pairs = [*met, (order[:-1][same], order[1:][same]), (program.need, owner)]
    tail, head = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    is_message = np.arange(len(tail)) < len(met[0][0]) + len(met[1][0])
    level = levels(count, tail, head)
    by_level = np.argsort(level[head], kind="stable")
    start = np.searchsorted(level[head][by_level], np.arange(int(level.max(initial=0)) + 2))
    last = np.zeros(count, dtype=np.int64)
    for first, end in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
        edges = by_level[first:end]
        brought = last[tail[edges]]
        with_message = brought + 1 if counts else np.maximum(brought, own[tail[edges]])
        np.maximum.at(last, head[edges], np.where(is_message[edges], with_message, brought))
    return last


def _met(
    program: RankProgram, gives: tuple[int, ...], takes: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The k-th of what gives with the k-th of what takes, for every rank, peer and channel."""
    give, take = (np.flatnonzero(np.isin(program.kind, kinds)) for kinds in (gives, takes))
    give = give[np.lexsort((program.channel[give], program.peer[give], program.rank[give]))]
    take = take[np.lexsort((program.channel[take], program.rank[take], program.peer[take]))]
    length = min(len(give), len(take))
    return give[:length], take[:length]
