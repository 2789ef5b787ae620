"""Comparison: all outcomes of a contest, who is best where, and the book of the best plans."""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign import __version__
from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import recovered, write_files
from ocs_codesign.core.machines.intervals import RESOLUTION, SLOWER, TIE, tuned, verdict
from ocs_codesign.core.plans import Advice, Book, Page, Played
from ocs_codesign.core.progress import tell
from ocs_codesign.core.shown import Tabular
from ocs_codesign.schedules.compare.contest import Contest, Floor
from ocs_codesign.schedules.compare.play import (
    LIBRARY,
    Entrant,
    Outcome,
    entrants,
    plan_of,
    play,
    timed_of,
)
from ocs_codesign.verification.sends import Witness

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor, Future
    from pathlib import Path

    from ocs_codesign.core.machines.intervals import Interval
    from ocs_codesign.core.machines.machine import RealMachine


@final
@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Tabular):
    """The outcomes of all entrants of a contest, in the order in which they were listed.

    Nothing is faster than ``floor_s``.
    Raises ValueError if nobody has a time.
    """

    contest: Contest
    outcomes: tuple[Outcome, ...]
    floor_s: Floor

    def __repr__(self) -> str:
        contest = self.contest
        return (
            f"Comparison({contest.collective.name} on {contest.name}: {len(self.played)} entrants, "
            f"{len(contest.sizes_bytes)} sizes)"
        )

    def __post_init__(self) -> None:
        if all(each.entrant.is_library for each in self.played):
            reasons = "; ".join(f"{each.entrant.label}: {each.refusal}" for each in self.outcomes)
            raise ValueError(f"nothing makes this {self.contest.collective.name}: {reasons}")

    @property
    def least_s(self) -> tuple[float, ...]:
        """Times that nothing beats, one a size."""
        return tuple(float(self.floor_s.at(size)) for size in self.contest.sizes_bytes)

    @property
    def played(self) -> tuple[Outcome, ...]:
        """Those that have times."""
        return tuple(each for each in self.outcomes if each.refusal is None)

    @property
    def library(self) -> Outcome | None:
        """What the machine's library takes, on a clock of its own; None if that is not known."""
        return next((each for each in self.played if each.entrant.is_library), None)

    def verdict(self, position: int) -> str:
        """Whether the best schedule is faster than the library at the size at this position.

        TIE where their intervals overlap; "" where there is no library or no interval of the best.
        """
        best, library = self.best(position), self.library
        if best is None or library is None or not best.intervals_s:
            return ""
        return verdict(best.intervals_s[position], library.intervals_s[position])

    def chosen(self, position: int) -> Outcome | None:
        """What to take: the best, but the library where the best is not faster beyond doubt."""
        keeps = self.verdict(position) in (TIE, SLOWER)
        return self.library if keeps else self.best(position)

    def best(
        self, position: int, *, classic: bool | None = None, plans: bool = False
    ) -> Outcome | None:
        """The fastest at the size at this position, of all or of those that are (no) classics.

        Of equals the one of fewest transfers, then the first; by the clock of a machine all within
        its RESOLUTION are equal, and the one of fewest steps is taken. With ``plans``, of those
        alone that make one.
        """
        chosen = [
            each
            for each in self.played
            if not each.entrant.is_library
            and (classic is None or each.entrant.is_classic == classic)
            and (each.entrant.has_plan or not plans)
        ]
        if self.contest.machine is not None and chosen:
            most = (1 + RESOLUTION) * min(each.times_s[position] for each in chosen)
            chosen = [each for each in chosen if each.times_s[position] <= most]
            least = min(each.steps for each in chosen)
            chosen = [each for each in chosen if each.steps == least]
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
    pages, times = [], []
    for from_bytes, best in comparison.ranges(plans=True):
        plan = plan_of(contest, best.entrant)
        if plan is None:
            raise RuntimeError(f"{best.entrant.label} has no plan any more")
        pages.append(Page(from_bytes, best.entrant.label, plan))
        times.append(best.times_s)
    is_plain = contest.machine is None
    played = Played(contest.sizes_bytes, tuple(times), contest.barriers) if is_plain else None
    known = contest.network, contest.unit_Bps, contest.collective
    sized = [] if is_plain else [comparison.best(at, plans=True) for at in range(len(times[0]))]
    ways = [(each.protocols[at], each.intervals_s[at]) for at, each in enumerate(sized) if each]
    return Book(*known, tuple(pages), played, _advice(contest, ways, comparison.library))


def _advice(
    contest: Contest, ways: Sequence[tuple[str, Interval]], library: Outcome | None
) -> Advice | None:
    """What a machine's clock says of pages, in their ``ways`` of every size, and of the library."""
    machine, sizes = contest.machine, contest.sizes_bytes
    if machine is None:
        return None
    protocols, limits = zip(*ways, strict=True)
    known = Advice(
        *(machine.name, machine.caveat, sizes, protocols, limits), barriers=contest.barriers
    )
    if library is None:
        return known
    ranks = contest.num_hosts
    instead = tuned(machine, contest.collective.name, ranks, machine.nodes_of(ranks), sizes)
    limits = library.intervals_s
    return known._replace(library=library.protocols, library_s=limits, tuned=instead)


def check_advice(book: Book, machine: RealMachine | None = None) -> list[Witness | None]:
    """Of every page what is wrong with its times, played again, or with where it begins.

    Nothing is, where the book does not say what it played. Advice is checked by the clock of the
    ``machine`` that it names, and not without one; ValueError for another.
    """
    if book.advice is not None and machine is not None and machine.name != book.advice.machine:
        raise ValueError(f"the advice is of {book.advice.machine}, not of {machine.name}")
    machine = None if book.advice is None else machine
    told = book.played if machine is None else book.played or book.advice
    if told is None:
        return [None] * len(book.pages)
    sizes = told.sizes_bytes
    contest = Contest(
        *("book", book.network, book.collective, sizes, book.unit_Bps),
        barriers=told.barriers,
        machine=machine,
    )
    timed = []
    for number, page in enumerate(book.pages, 1):
        timed.append(timed_of(contest, page.plan))
        tell(number, len(book.pages))
    begins = [page.from_bytes for page in book.pages]
    page_of = [bisect_right(begins, size) - 1 for size in sizes]
    most = 1 if machine is None else 1 + RESOLUTION
    least = [most * min(times[at] for times, _, _ in timed) for at in range(len(sizes))]
    found: list[Witness | None] = []
    for number, (begin, (times, _, _)) in enumerate(zip(begins, timed, strict=True)):
        mine = [at for at, one in enumerate(page_of) if one == number]
        slow = [sizes[at] for at in mine if times[at] > least[at]]
        rule = None
        if book.played is not None and times != book.played.times_s[number]:
            rule = "the times that the book has are not those of this plan on its network"
        elif number and begin not in sizes:
            rule = f"the page begins at {begin} bytes, which was not played"
        elif slow:
            rule = f"for {slow[0]} bytes another page is faster"
        found.append(None if rule is None else Witness(rule))
    if machine is not None and not any(found):
        ways = [(timed[one][1][at], timed[one][2][at]) for at, one in enumerate(page_of)]
        library = play(contest, LIBRARY)
        if _advice(contest, ways, None if library.refusal else library) != book.advice:
            found[0] = Witness(f"the advice is not what the clock of {machine.name} says")
    return found


# Comparisons run in parallel, each turn kept as a file, so that what was interrupted goes on.


_MAX_OUTCOME_BYTES = 2**20
_AHEAD = 2
_SEARCHES = ("greedy", "late", "exact", "stepped")


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
        recovered(kept / "outcome")  # also if nothing is left to play
        for turn in turns:
            outcome = _kept(kept / f"{keys[turn]}.json", turn[1])
            if outcome is not None:
                found[turn] = outcome
    rest = sorted((turn for turn in turns if turn not in found), key=lambda turn: _haste(turn[1]))
    rest = rest[::-1]
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


def _haste(entrant: Entrant) -> tuple[int, int]:
    """Who plays first: the quick ones, so that nobody waits for those that search or cut finely.

    What these may search is limited in work, not in time: their outcomes are the same anywhere.
    """
    slow = 0 if entrant.is_classic else 1 + (entrant.maker in _SEARCHES)
    return slow, dict(entrant.options).get("parts", 1)


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
        *(contest.aggregation, contest.of_designs, contest.min_chunk_bytes),
        *(() if contest.machine is None else (repr(contest.machine.record()),)),
    )
    digest.update(repr(rest).encode())
    return digest.hexdigest()[:16]


def _record(outcome: Outcome) -> dict[str, Any]:
    return {
        "steps": outcome.steps,
        "num_transfers": outcome.num_transfers,
        "times_s": list(outcome.times_s),
        "refusal": outcome.refusal,
        "protocols": list(outcome.protocols),
        "intervals_s": [list(limits) for limits in outcome.intervals_s],
    }


def _kept(path: Path, entrant: Entrant) -> Outcome | None:
    """The outcome in a file; None if there is none or it cannot be read."""
    try:
        record = json.loads(read_limited(path, _MAX_OUTCOME_BYTES))
        times = tuple(float(value) for value in record["times_s"])
        refusal = None if record["refusal"] is None else str(record["refusal"])
        steps, transfers = int(record["steps"]), int(record["num_transfers"])
        protocols = tuple(map(str, record["protocols"]))
        limits = tuple((float(low), float(high)) for low, high in record["intervals_s"])
        return Outcome(entrant, steps, transfers, times, refusal, protocols, limits)
    except (OSError, ValueError, KeyError, TypeError):
        return None
