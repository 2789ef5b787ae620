"""Comparison: all outcomes of a contest, who is best where, and the book of the best plans."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign import __version__
from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import write_files
from ocs_codesign.core.plans import Book, Page
from ocs_codesign.core.progress import tell
from ocs_codesign.core.shown import Tabular
from ocs_codesign.schedules.compare.play import Entrant, Outcome, entrants, plan_of, play

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor, Future
    from fractions import Fraction
    from pathlib import Path

    from ocs_codesign.schedules.compare.contest import Contest


@final
@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Tabular):
    """The outcomes of all entrants of a contest, in the order in which they were listed.

    Nothing is faster than ``floor_s`` of an empty message and of every byte, the larger of both.
    Raises ValueError if nobody has a time.
    """

    contest: Contest
    outcomes: tuple[Outcome, ...]
    floor_s: tuple[Fraction, Fraction]

    def __repr__(self) -> str:
        contest = self.contest
        return (
            f"Comparison({contest.collective.name} on {contest.name}: {len(self.played)} entrants, "
            f"{len(contest.sizes_bytes)} sizes)"
        )

    def __post_init__(self) -> None:
        if not self.played:
            reasons = "; ".join(f"{each.entrant.label}: {each.refusal}" for each in self.outcomes)
            raise ValueError(f"nothing makes this {self.contest.collective.name}: {reasons}")

    @property
    def least_s(self) -> tuple[float, ...]:
        """Times that nothing beats, one a size."""
        latency, byte = self.floor_s
        return tuple(float(max(latency, byte * size)) for size in self.contest.sizes_bytes)

    @property
    def played(self) -> tuple[Outcome, ...]:
        """Those that have times."""
        return tuple(each for each in self.outcomes if each.refusal is None)

    def best(
        self, position: int, *, classic: bool | None = None, plans: bool = False
    ) -> Outcome | None:
        """The fastest at the size at this position, of all or of those that are (no) classics.

        Of equals the one of fewest transfers, then the first. With ``plans``, of those alone that
        make one.
        """
        chosen = [
            each
            for each in self.played
            if (classic is None or each.entrant.is_classic == classic)
            and (each.entrant.has_plan or not plans)
        ]
        return min(
            chosen, key=lambda each: (each.times_s[position], each.num_transfers), default=None
        )

    def ranges(self, *, plans: bool = False) -> list[tuple[int, Outcome]]:
        """From which size on who is best, of all or of those with plans; the first from 0."""
        found: list[tuple[int, Outcome]] = []
        for position, size in enumerate(self.contest.sizes_bytes):
            best = self.best(position, plans=plans)
            if best is not None and (not found or found[-1][1] is not best):
                found.append((size if found else 0, best))
        return found

    def busbw_Bps(self, outcome: Outcome, position: int) -> float:  # noqa: N802 - a unit
        """Bus bandwidth as nccl-tests reckons it, in bytes a second."""
        size = self.contest.sizes_bytes[position]
        return float(self.contest.busbw_factor() * size) / outcome.times_s[position]


def book_of(comparison: Comparison) -> Book:
    """The plans of the best, made once more, for what makes them gives the same each time.

    What switches add up has no plan for ranks: there it is the best of the others.
    """
    contest = comparison.contest
    pages = []
    for from_bytes, best in comparison.ranges(plans=True):
        plan = plan_of(contest, best.entrant)
        if plan is None:
            raise RuntimeError(f"{best.entrant.label} has no plan any more")
        pages.append(Page(from_bytes, best.entrant.label, plan))
    return Book(contest.network, contest.unit_Bps, contest.collective, tuple(pages))


# Comparisons run in parallel, each turn kept as a file, so that what was interrupted goes on.


_MAX_OUTCOME_BYTES = 2**20
_AHEAD = 2


def compare(
    contests: Sequence[Contest], executor: Executor, num_workers: int, kept: Path | None = None
) -> list[Comparison]:
    """Let all entrants of all contests play; a comparison a contest.

    Outcomes are written to the directory ``kept`` as they come, and those of the same question that
    are there already are not played again.
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
        tell(len(found), len(turns))
    return [
        Comparison(one, tuple(found[turn] for turn in turns if turn[0] == at), one.floor_s())
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
