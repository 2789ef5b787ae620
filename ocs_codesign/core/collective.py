"""Collectives as data: a name and, where it has them, a root, sizes and groups."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, final

if TYPE_CHECKING:
    from collections.abc import Sequence


MIRROR = {
    "allgather": "reduce-scatter",
    "reduce-scatter": "allgather",
    "broadcast": "reduce",
    "reduce": "broadcast",
    "scatter": "gather",
    "gather": "scatter",
    "allreduce": "allreduce",
    "alltoall": "alltoall",
}
"""Every collective by name, with what it becomes when time and links are reversed."""

CUSTOM = "custom"
"""The name of a demand that is none of these."""

_ROOTED = ("broadcast", "reduce", "scatter", "gather")
_SIZED = ("allgather", "reduce-scatter", "allreduce", "scatter", "gather", "alltoall")


def plain_collective(text: str) -> str:
    """The name that a spelling stands for: AllReduce, all_reduce, all-reduce; itself if none.

    >>> [plain_collective(text) for text in ("AllGather", "reduce_scatter", "all to all", "sum")]
    ['allgather', 'reduce-scatter', 'alltoall', 'sum']
    """
    spelled = re.sub("[-_ ]", "", text.lower())
    return next((name for name in MIRROR if name.replace("-", "") == spelled), text)


Sizes = tuple[int, ...] | tuple[tuple[int, ...], ...]


@final
@dataclass(frozen=True, slots=True)
class Collective:
    """A collective operation of ranks 0 to n - 1, which are all hosts or those of a group.

    ============== =============================== ===========================================
    name           before                          after
    ============== =============================== ===========================================
    allgather      rank r holds shard r            every rank holds every shard
    reduce-scatter every rank holds its own        rank r holds the sum of the contributions
                   contribution to every shard     to shard r
    allreduce      as reduce-scatter               every rank holds the sum of every shard
    alltoall       rank r holds a piece for every  rank v holds its piece of every rank
                   other rank
    broadcast      ``root`` holds the data         every rank holds it
    reduce         every rank holds its own data   ``root`` holds the sum
    scatter        ``root`` holds a piece for      rank r holds piece r
                   every rank
    gather         rank r holds piece r            ``root`` holds all pieces
    ============== =============================== ===========================================

    ``sizes``, whole numbers in any common unit, make shards or pieces unequal: one a rank, in an
    all-to-all a row of pieces a source. ``groups`` run side by side, each over its own hosts, whose
    position in it is their rank; without them all hosts are one group. M is the buffer of a rank as
    nccl-tests count it: the result of an allgather or a gather, the vector of a reduction or a
    broadcast, all that one rank (the root of a scatter, the largest of an all-to-all) sends.
    Raises ValueError for what is no such collective.

    >>> Collective.parse("reduce_scatter")
    Collective('reduce-scatter')
    >>> Collective("allreduce", groups=[(0, 1), (2, 3)]).halves()[1]
    Collective('allgather', groups=((0, 1), (2, 3)))
    >>> Collective("scatter", root=2).mirrored
    Collective('gather', root=2)
    """

    name: str
    root: int | None = None
    sizes: Sizes | None = None
    groups: tuple[tuple[int, ...], ...] | None = None

    ALLGATHER: ClassVar[Collective]
    REDUCE_SCATTER: ClassVar[Collective]
    ALLREDUCE: ClassVar[Collective]
    ALLTOALL: ClassVar[Collective]

    def __init__(
        self,
        name: str,
        root: int | None = None,
        sizes: Sequence[int] | Sequence[Sequence[int]] | None = None,
        groups: Sequence[Sequence[int]] | None = None,
    ) -> None:
        if name not in MIRROR and name != CUSTOM:
            raise ValueError(f"unknown collective {name!r}: expected one of {', '.join(MIRROR)}")
        if (root is not None) != (name in _ROOTED):
            raise ValueError(
                f"{name} has {'no' if root is not None else 'a'} root: "
                f"{', '.join(_ROOTED)} have one, and only they"
            )
        if root is not None and index(root) < 0:
            raise ValueError(f"root is {root}: ranks count from 0")
        if sizes is not None and name not in _SIZED:
            raise ValueError(f"{name} has no sizes of its own: one buffer is as large as another")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "root", None if root is None else index(root))
        object.__setattr__(self, "sizes", None if sizes is None else _sizes(name, sizes))
        object.__setattr__(self, "groups", None if groups is None else _groups(groups))

    def __repr__(self) -> str:
        named = (("root", self.root), ("sizes", self.sizes), ("groups", self.groups))
        given = "".join(f", {name}={value!r}" for name, value in named if value is not None)
        return f"Collective({self.name!r}{given})"

    @property
    def text(self) -> str:
        """The collective in words.

        >>> Collective("reduce", root=1, groups=[(4, 0), (2, 1, 3)]).text
        'reduce, root 1, 2 groups'
        """
        told = [self.name]
        if self.root is not None:
            told.append(f"root {self.root}")
        if self.sizes is not None:
            told.append(f"{len(self.sizes)} sizes")
        if self.groups is not None:
            told.append(f"{len(self.groups)} groups")
        return ", ".join(told)

    @classmethod
    def parse(cls, text: str | Collective) -> Collective:
        """The collective without parameters of that name, however it is spelled.

        Raises ValueError if there is none, or if it needs a root.
        """
        if isinstance(text, Collective):
            return text
        if not isinstance(text, str):
            raise ValueError(f"collective is {text!r}: it must be a Collective or its name")
        plain = [known for known in MIRROR if known not in _ROOTED]
        name = plain_collective(text)
        if name in _ROOTED:
            raise ValueError(
                f"unknown collective {name!r}, which has a root: Collective({name!r}, root=0)"
            )
        if name not in plain:
            raise ValueError(f"unknown collective {text!r}: expected one of {', '.join(plain)}")
        return cls(name)

    @classmethod
    def parse_gathering(cls, text: str | Collective) -> Collective:
        """The one of GATHERING that has this name; ValueError for others, sizes and groups."""
        collective = cls.parse(text)
        if collective in GATHERING:
            return collective
        makes = "BFB makes allgather, reduce-scatter and allreduce schedules"
        if replace(collective, sizes=None, groups=None) in GATHERING:
            unlike = "of unequal sizes" if collective.sizes is not None else "in process groups"
            raise ValueError(f"{makes} of equal shards of all nodes, not {unlike}")
        name = "all-to-all" if collective.name == "alltoall" else collective.name
        raise ValueError(f"{makes}, not {name}")

    @property
    def mirrored(self) -> Collective:
        """The collective that a schedule becomes when time and links are reversed."""
        sizes = self.sizes
        if sizes is not None and self.name == "alltoall":
            sizes = tuple(zip(*sizes, strict=True))
        return replace(self, name=MIRROR.get(self.name, CUSTOM), sizes=sizes)

    def halves(self) -> tuple[Collective, ...]:
        """What runs one after the other: an allreduce is a reduce-scatter and then an allgather."""
        if self.name != "allreduce":
            return (self,)
        return (replace(self, name="reduce-scatter"), replace(self, name="allgather"))

    def ranks(self, num_hosts: int) -> tuple[tuple[int, ...], ...]:
        """The hosts of every group, by rank; ValueError if they do not fit so many hosts."""
        groups = (tuple(range(num_hosts)),) if self.groups is None else self.groups
        for group in groups:
            if max(group) >= num_hosts:
                raise ValueError(f"a group names host {max(group)}: hosts are 0 to {num_hosts - 1}")
            if self.root is not None and self.root >= len(group):
                raise ValueError(f"root is {self.root}: the ranks are 0 to {len(group) - 1}")
            if self.sizes is not None and len(self.sizes) != len(group):
                raise ValueError(f"{len(self.sizes)} sizes for {len(group)} ranks")
        return groups


def _sizes(name: str, sizes: Any) -> Sizes:
    """Sizes as tuples of whole numbers, a square of them for an all-to-all."""
    rows = sizes if name == "alltoall" else [sizes]
    table = tuple(tuple(index(size) for size in row) for row in rows)
    if name == "alltoall" and any(len(row) != len(table) for row in table):
        raise ValueError("an all-to-all has a row of sizes a rank, as long as there are ranks")
    if not table or not table[0] or min(map(min, table)) < 0:
        raise ValueError("sizes are whole numbers of at least 0, one a rank")
    if not 1 <= max(map(max, table)) < 2**31:
        raise ValueError("sizes are below 2^31, and one of them is above 0")
    return table if name == "alltoall" else table[0]


def _groups(groups: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    members = tuple(tuple(index(host) for host in group) for group in groups)
    hosts = [host for group in members for host in group]
    if not members or not all(members):
        raise ValueError("there is a group, and every group has a host")
    if min(hosts) < 0:
        raise ValueError(f"a group names host {min(hosts)}: hosts count from 0")
    if len(set(hosts)) < len(hosts):
        twice = next(host for host in hosts if hosts.count(host) > 1)
        raise ValueError(f"host {twice} is in groups twice: groups run side by side")
    return members


Collective.ALLGATHER = Collective("allgather")
Collective.REDUCE_SCATTER = Collective("reduce-scatter")
Collective.ALLREDUCE = Collective("allreduce")
Collective.ALLTOALL = Collective("alltoall")

GATHERING = (Collective.ALLGATHER, Collective.REDUCE_SCATTER, Collective.ALLREDUCE)
"""The collectives made of allgathers and their mirror: what BFB, recipes and catalogues answer."""

WITHOUT_PARAMETERS = (*GATHERING, Collective.ALLTOALL)
"""The collectives that need nothing but their name, over all hosts."""
