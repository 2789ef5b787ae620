"""Comparisons run in parallel, each turn kept as a file, so that what was interrupted goes on."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import FIRST_COMPLETED, wait
from typing import TYPE_CHECKING, Any

from ocs_codesign import __version__
from ocs_codesign.comparison.comparison import Comparison
from ocs_codesign.comparison.entrants import Entrant, entrants
from ocs_codesign.comparison.play import Outcome, play
from ocs_codesign.files.atomic import write_files
from ocs_codesign.files.limited import read_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor, Future
    from pathlib import Path

    from ocs_codesign.comparison.contest import Contest

_MAX_OUTCOME_BYTES = 2**20
_AHEAD = 2


def compare(
    contests: Sequence[Contest],
    executor: Executor,
    num_workers: int,
    kept: Path | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Comparison]:
    """Let all entrants of all contests play; a comparison a contest.

    Outcomes are written to the directory ``kept`` as they come, and those of the same question that
    are there already are not played again. ``on_progress(done, total)`` counts turns.
    """
    turns = [(at, entrant) for at, one in enumerate(contests) for entrant in entrants(one)]
    found: dict[tuple[int, Entrant], Outcome] = {}
    digests = [_digest(contest) for contest in contests]
    keys = {(at, one): f"{one.key}-{digests[at]}" for at, one in turns}
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        for turn in turns:
            outcome = _kept(kept / f"{keys[turn]}.json", turn[1])
            if outcome is not None:
                found[turn] = outcome
    rest = [turn for turn in turns if turn not in found][::-1]
    running: dict[Future[Outcome], tuple[int, Entrant]] = {}
    while rest or running:
        while rest and len(running) < _AHEAD * num_workers:
            turn = rest.pop()
            running[executor.submit(play, contests[turn[0]], turn[1])] = turn
        finished, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            turn = running.pop(future)
            found[turn] = future.result()
            if kept is not None:
                text = json.dumps(_record(found[turn]), indent=1) + "\n"
                write_files({kept / f"{keys[turn]}.json": text.encode()})
        if on_progress is not None:
            on_progress(len(found), len(turns))
    return [
        Comparison(
            one,
            tuple(found[turn] for turn in turns if turn[0] == at),
            one.floor_s(),
        )
        for at, one in enumerate(contests)
    ]


def _digest(contest: Contest) -> str:
    """What only the same contest in the same version has: it is in the file names of its turns."""
    network = contest.network
    digest = hashlib.sha256()
    for column in (network.tail, network.head, network.bandwidth, network.latency):
        digest.update(column.tobytes())
    rest = (
        *(__version__, network.num_hosts, network.num_nodes, network.tick_s, repr(contest.recipe)),
        *(contest.collective.text, contest.sizes_bytes, contest.unit_Bps, contest.seed),
        *(contest.barriers, network.multicast.tobytes(), network.aggregate.tobytes()),
        contest.aggregation,
    )
    digest.update(repr(rest).encode())
    return digest.hexdigest()[:16]


def _record(outcome: Outcome) -> dict[str, Any]:
    return {
        "steps": outcome.steps,
        "num_transfers": outcome.num_transfers,
        "times_s": list(outcome.times_s),
        "refusal": outcome.refusal,
    }


def _kept(path: Path, entrant: Entrant) -> Outcome | None:
    """The outcome in a file; None if there is none or it cannot be read."""
    try:
        record = json.loads(read_limited(path, _MAX_OUTCOME_BYTES))
        times = tuple(float(value) for value in record["times_s"])
        refusal = None if record["refusal"] is None else str(record["refusal"])
        return Outcome(entrant, int(record["steps"]), int(record["num_transfers"]), times, refusal)
    except (OSError, ValueError, KeyError, TypeError):
        return None
