"""Rules for NCCL's example tuner plugin: for which sizes it takes which of its own algorithms.

``NCCL_TUNER_CONFIG_FILE`` names the file, ``NCCL_TUNER_PLUGIN`` the plugin. A rule carries no
schedule. A line has no header and is ``collective,min,max,algorithm,protocol,channels,nNodes,
nRanks,numPipeOps,regBuff``, -1 where any will do; of the rules that match the first counts. The
plugin takes words that it does not know for others, and -1 channels for one: both are refused here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

from ocs_codesign.core.files.archives import check_size, read_limited
from ocs_codesign.core.files.atomic import decoded, errors_at
from ocs_codesign.core.files.records import is_comment
from ocs_codesign.core.machines.intervals import FASTER
from ocs_codesign.core.shown import shown
from ocs_codesign.interop.nccl.graph import rings_of
from ocs_codesign.interop.registry import CheckedFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.plans import Advice, Book, Page
    from ocs_codesign.interop.registry import Contents


MAX_TUNER_BYTES = 2**20
MAX_LINE = 255
CHANNELS = 2
LARGEST_BYTES = 2**32 - 1
"""The end of the last rule of a file: what is larger is left to NCCL."""

ANY = -1
COLLECTIVES = {
    "broadcast": "broadcast",
    "reduce": "reduce",
    "allgather": "allgather",
    "reduce-scatter": "reducescatter",
    "allreduce": "allreduce",
}
"""Our collectives by NCCL's words; it has no all-to-all of its own."""

ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
_OF_MAKERS = {"ring": "ring", "chain": "ring", "double-binary-tree": "tree", "pat": "pat"}
"""Makers of pages that are what NCCL calls so: its rings broadcast and reduce as chains."""
_DOES = {
    "ring": ("broadcast", "reduce", "allgather", "reducescatter", "allreduce"),
    "tree": ("allreduce",),
    "pat": ("allgather", "reducescatter"),
}
_WHOLE = re.compile(r"-1|[0-9]{1,20}")
_MOST = {"channels": 64, "nodes": 2**31 - 1, "ranks": 2**31 - 1, "operations": 2**31 - 1}


@final
@dataclass(frozen=True, slots=True)
class TunerRule:
    """From ``from_bytes`` to ``to_bytes`` of M, inclusive, a collective takes an algorithm."""

    collective: str
    from_bytes: int
    to_bytes: int
    algorithm: str
    protocol: str = "simple"
    num_channels: int = CHANNELS
    num_servers: int = ANY
    num_ranks: int = ANY
    num_operations: int = ANY
    is_registered: int = ANY

    def line(self) -> str:
        """The rule as the plugin reads it.

        >>> TunerRule("allgather", 0, 99, "ring", num_ranks=4).line()
        'allgather,0,99,ring,simple,2,-1,4,-1,-1'
        """
        cells = (
            *(self.collective, self.from_bytes, self.to_bytes, self.algorithm, self.protocol),
            *(self.num_channels, self.num_servers, self.num_ranks, self.num_operations),
            self.is_registered,
        )
        return ",".join(map(str, cells))


def rules_of(
    book: Book,
    *,
    num_channels: int = CHANNELS,
    protocol: str = "simple",
    num_servers: int = ANY,
    largest_bytes: int = LARGEST_BYTES,
) -> tuple[TunerRule, ...]:
    """A rule for every page whose plan is what NCCL has: rings, double binary tree or PAT.

    With advice of a machine a rule has the protocol of its clock, and only sizes at which the page
    is faster than the library beyond doubt have one; the others have what NCCL should take instead
    of its own choice, if anything. All other sizes are left to NCCL. Raises ValueError for a
    collective that NCCL does not have, and a book that has no rule.
    """
    collective = COLLECTIVES.get(book.collective.name)
    if collective is None or book.collective.groups is not None:
        raise ValueError(
            f"{book.collective.text}: NCCL's tuner knows {', '.join(COLLECTIVES)} of all ranks"
        )
    ways = list(_ways(book, protocol) if book.advice is None else _advised(book, book.advice))
    ends = [begin - 1 for begin, _ in ways[1:]] + [largest_bytes]
    rules: list[TunerRule] = []
    for (begin, way), last in zip(ways, ends, strict=True):
        if way is None or collective not in _DOES.get(way[0], (collective,)):
            continue
        end = min(last, largest_bytes)
        if begin > end:
            continue
        known = num_channels, num_servers, book.network.num_hosts
        rule = TunerRule(collective, begin, end, *way, *known)
        if rules and rules[-1].to_bytes + 1 == begin:
            joined = replace(rule, from_bytes=rules[-1].from_bytes)
            if replace(joined, to_bytes=begin - 1) == rules[-1]:
                rule, _ = joined, rules.pop()
        rules.append(rule)
    if not rules:
        if book.advice is not None and book.advice.library:
            raise ValueError("NCCL's own choice stands: nothing it has is faster beyond doubt")
        makers = ", ".join(page.maker for page in book.pages)
        raise ValueError(f"NCCL has none of these: {makers}")
    return tuple(rules)


def _ways(book: Book, protocol: str) -> Iterator[tuple[int, tuple[str, str] | None]]:
    """From which size on which algorithm and protocol, None where NCCL has it not."""
    for page in book.pages:
        algorithm = _algorithm(page)
        yield page.from_bytes, None if algorithm is None else (algorithm, protocol)


def _advised(book: Book, advice: Advice) -> Iterator[tuple[int, tuple[str, str] | None]]:
    """The same by a machine's clock: NCCL's own choice stands unless something is faster."""
    verdicts = advice.verdicts() or (FASTER,) * len(advice.sizes_bytes)
    for at, size in enumerate(advice.sizes_bytes):
        begin = size if at else 0
        if verdicts[at] == FASTER:
            algorithm = _algorithm(book.page_of(size))
            yield begin, None if algorithm is None else (algorithm, advice.protocols[at].lower())
        else:
            algorithm, _, protocol = advice.tuned[at].lower().partition(" ")
            yield begin, (algorithm, protocol) if algorithm else None


def is_in_nccl(collective: Collective, page: Page) -> bool:
    """Whether NCCL has the plan of a page of such a collective, so that its tuner can take it."""
    of_nccl = COLLECTIVES.get(collective.name)
    if of_nccl is None or collective.groups is not None:
        return False
    algorithm = _algorithm(page)
    return algorithm is not None and of_nccl in _DOES.get(algorithm, (of_nccl,))


def _algorithm(page: Page) -> str | None:
    """What NCCL calls the plan of a page, by its maker or because it goes round in rings."""
    of_maker = _OF_MAKERS.get(page.maker.split(" ", 1)[0])
    if of_maker is not None:
        return of_maker
    try:
        rings_of(page.plan)
    except ValueError:
        return None
    return "ring"


def write_tuner(book: Book, name: str) -> Contents:
    """``NAME.tuner.csv`` of a book."""
    return {f"{name}.tuner.csv": tuner_text(rules_of(book)).encode()}


def tuner_text(rules: Sequence[TunerRule]) -> str:
    """The lines of rules; ValueError for one that the reader would refuse."""
    text = "".join(f"{rule.line()}\n" for rule in rules)
    parse_tuner(text.encode(), "the rules")
    return text


def checked_rules(path: Path) -> CheckedFile:
    """The rules of a file in numbers; OSError if it cannot be read, else as of ``parse_tuner``."""
    rules = parse_tuner(read_limited(path, MAX_TUNER_BYTES), str(path))
    facts = (("rules", len(rules)), ("collectives", len({rule.collective for rule in rules})))
    return CheckedFile(facts, "rules choose what NCCL has, and have no schedule")


def parse_tuner(data: bytes, name: str) -> tuple[TunerRule, ...]:
    """The rules of a content, in their order.

    Raises ValueError, with the name, the line and the rule, for what the plugin would take for
    something else or never reach.
    """
    check_size(len(data), name, MAX_TUNER_BYTES)
    rules: list[TunerRule] = []
    for number, line in enumerate(decoded(data, name).split("\n"), 1):
        if is_comment(line):
            continue
        with errors_at(f"{name}, line {number}"):
            rule = _rule(line)
            hidden = next((at for at, one in enumerate(rules, 1) if _covers(one, rule)), None)
            if hidden is not None:
                raise ValueError(f"rule {hidden} matches all that this one does: it never counts")
            rules.append(rule)
            if len(rules) > 1000:
                raise ValueError("more than 1000 rules are not read")
    if not rules:
        raise ValueError(f"{name}: there are no rules")
    return tuple(rules)


def _rule(line: str) -> TunerRule:
    if len(line) > MAX_LINE:
        raise ValueError(f"more than {MAX_LINE} characters: the plugin cuts longer lines")
    cells = line.rstrip("\r").split(",")
    if not 8 <= len(cells) <= 10:
        raise ValueError(f"{len(cells)} cells: a rule has 8 to 10")
    collective, low, high, algorithm, protocol, *rest = cells
    for word, known, taken in (
        (collective, tuple(COLLECTIVES.values()), "allreduce"),
        (algorithm, ALGORITHMS, "ring"),
        (protocol, PROTOCOLS, "simple"),
    ):
        if word not in known:
            raise ValueError(
                f"{shown(word)} is none of {', '.join(known)}: the plugin takes it for {taken}"
            )
    if algorithm in _DOES and collective not in _DOES[algorithm]:
        raise ValueError(f"NCCL has no {algorithm} for {collective}")
    from_bytes, to_bytes = _number(low, "min", 2**64 - 1), _number(high, "max", 2**64 - 1)
    if not 0 <= from_bytes <= to_bytes:
        raise ValueError(f"from {from_bytes} to {to_bytes} bytes: this range is empty")
    names = ("channels", "nodes", "ranks", "operations", "registered")
    numbers = [
        _number(cell, name, _MOST.get(name, 1)) for name, cell in zip(names, rest, strict=False)
    ]
    if numbers[0] < 1:
        raise ValueError(f"channels is {numbers[0]}: the plugin makes one of it, write a number")
    for name, number in zip(names[1:4], numbers[1:4], strict=False):
        if number == 0:
            raise ValueError(f"{name} is 0: it matches nothing; -1 is any")
    return TunerRule(collective, from_bytes, to_bytes, algorithm, protocol, *numbers)


def _number(text: str, name: str, most: int) -> int:
    if not _WHOLE.fullmatch(text) or int(text) > most:
        raise ValueError(f"{name} is {shown(text)}: it is a whole number to {most}")
    return int(text)


def _covers(one: TunerRule, other: TunerRule) -> bool:
    """Whether a rule matches all that another does."""
    pairs = (
        (one.num_servers, other.num_servers),
        (one.num_ranks, other.num_ranks),
        (one.num_operations, other.num_operations),
        (one.is_registered, other.is_registered),
    )
    return (
        one.collective == other.collective
        and one.from_bytes <= other.from_bytes
        and other.to_bytes <= one.to_bytes
        and all(mine in (ANY, theirs) for mine, theirs in pairs)
    )
