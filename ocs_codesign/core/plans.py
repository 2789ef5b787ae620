"""RankProgram: what every rank does, operation after operation, in buffers of chunks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np

from ocs_codesign.core.collective import CUSTOM, Collective
from ocs_codesign.core.demand import COPY as COPIED
from ocs_codesign.core.demand import MOVE as MOVED
from ocs_codesign.core.demand import Demand, demands_of
from ocs_codesign.core.machines.intervals import verdict
from ocs_codesign.core.schedule import Messages, Schedule
from ocs_codesign.core.topology import places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from ocs_codesign.core.network import Network


SEND, RECEIVE, RECEIVE_ADD, COPY, ADD, NOP, PUT, GET, SIGNAL, WAIT = range(10)
"""Kinds of operations; the last four are of one-sided formats, and nothing lowers to them."""

KINDS = (
    *("send", "receive", "receive-add", "copy", "add", "nop"),
    *("put", "get", "signal", "wait"),
)

INPUT, OUTPUT, SCRATCH = range(3)
"""The buffers of a rank."""

BUFFERS = ("input", "output", "scratch")

COLUMNS = (
    *("rank", "stream", "kind", "peer", "channel", "source_buffer", "source"),
    *("target_buffer", "target", "count", "step"),
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RankProgram:
    """Operations of N ranks that do a collective, as columns sorted by rank.

    Operation o is of rank ``rank[o]`` and of its ``stream[o]``: operations of one stream run one
    after the other in the order of the columns, streams side by side. It begins when the one before
    it in its stream and all of ``need[need_start[o] : need_start[o + 1]]`` are done, which are
    earlier operations of the same rank. It concerns ``count`` chunks from ``source`` of
    ``source_buffer`` on, of the rank, and from ``target`` of ``target_buffer`` on:

    =========== =====================================================================
    send        source, to ``peer`` over ``channel``; done once it was taken up there
                or by the FIFO between them, whatever its depth
    receive     target becomes what ``peer`` sent over ``channel``
    receive-add what ``peer`` sent is added to target
    copy, add   target becomes, or is added, source, both of this rank
    nop         nothing but to wait
    put, get    target at the ``peer`` becomes source here; the reverse. Both name
                the place here as source, that of the peer as target
    signal      adds one to the counter of (rank, ``channel``) at the peer
    wait        takes one from the counter of (``peer``, ``channel``) here
    =========== =====================================================================

    The k-th send of a rank to a peer over a channel meets the k-th receive there. What a field does
    not apply to is -1 for ``peer`` and 0 otherwise. ``step`` is that of the schedule from which the
    operation stems, 0 if from none; neighbouring sends of a stream with the same positive step,
    peer and channel may travel as one message.

    Slots are chunks, ``chunks_per_unit`` a unit of weight; pieces of a buffer stand side by side in
    the order of the demand's items. What is copied (allgather, broadcast) is input at its root and
    output at every host of its group; what is summed (reduce-scatter, reduce) is input at every
    host of its group and output at its root; what is moved (all-to-all, scatter, gather) is input
    at its root and output at its host, a rank's piece for itself included. An allreduce has the
    input of its first half and the output of its second. With ``in_place`` the larger of both
    buffers is both, the input of sums and of scatter, the output of the others, and a rank's part
    of the smaller is where that part stands in the larger; ``scratch`` (int64, ranks) is how many
    chunks a rank has besides. int32 columns, int8 kinds and buffers; copied to read-only. Raises
    ValueError for what is out of range; whether the operations end, and do what is demanded, is for
    ``verification.rank_programs`` to say.

    >>> swap = RankProgram(Collective.ALLGATHER, 2, 1, True, [0, 0],
    ...     {"rank": [0, 0, 1, 1], "stream": [0, 1, 0, 1], "kind": [SEND, RECEIVE] * 2,
    ...      "peer": [1, 1, 0, 0], "source_buffer": [OUTPUT] * 4, "source": [0, 0, 1, 0],
    ...      "target_buffer": [OUTPUT] * 4, "target": [0, 1, 0, 0], "count": [1] * 4})
    >>> swap.num_ranks, swap.num_operations, [size.tolist() for size in swap.buffer_sizes()]
    (2, 4, [[0, 0], [2, 2], [0, 0]])
    """

    collective: Collective
    demands: tuple[Demand, ...]
    chunks_per_unit: int
    in_place: bool
    scratch: NDArray[np.int64]
    rank: NDArray[np.int32]
    stream: NDArray[np.int32]
    kind: NDArray[np.int8]
    peer: NDArray[np.int32]
    channel: NDArray[np.int32]
    source_buffer: NDArray[np.int8]
    source: NDArray[np.int32]
    target_buffer: NDArray[np.int8]
    target: NDArray[np.int32]
    count: NDArray[np.int32]
    step: NDArray[np.int32]
    need_start: NDArray[np.int64]
    need: NDArray[np.int64]

    def __init__(
        self,
        collective: Collective | Demand,
        num_ranks: int,
        chunks_per_unit: int,
        in_place: bool,
        scratch: ArrayLike,
        columns: Mapping[str, ArrayLike],
        need_start: ArrayLike | None = None,
        need: ArrayLike = (),
    ) -> None:
        if isinstance(collective, Demand):
            demands: tuple[Demand, ...] = (collective,)
            collective = Collective(CUSTOM)
        else:
            demands = demands_of(collective, num_ranks)
        length = len(np.asarray(columns["rank"]))
        if need_start is None:
            need_start = np.zeros(length + 1, dtype=np.int64)
        scalars: dict[str, Any] = {
            "collective": collective,
            "demands": demands,
            "chunks_per_unit": int(chunks_per_unit),
            "in_place": bool(in_place),
        }
        for name, value in scalars.items():
            object.__setattr__(self, name, value)
        arrays = {
            "scratch": np.array(scratch, dtype=np.int64),
            "need_start": np.array(need_start, dtype=np.int64),
            "need": np.array(need, dtype=np.int64),
        }
        for name in COLUMNS:
            default = -1 if name == "peer" else 0
            dtype = np.int8 if name in ("kind", "source_buffer", "target_buffer") else np.int32
            arrays[name] = _column(columns.get(name, np.full(length, default)), name, dtype)
        for name, column in arrays.items():
            column.setflags(write=False)
            object.__setattr__(self, name, column)
        _check(self, num_ranks)

    def __eq__(self, other: object) -> bool:
        names = ("scratch", *COLUMNS, "need_start", "need")
        return (
            isinstance(other, RankProgram)
            and (self.chunks_per_unit, self.in_place) == (other.chunks_per_unit, other.in_place)
            and self.demands == other.demands
            and all(np.array_equal(getattr(self, n), getattr(other, n)) for n in names)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"RankProgram({self.collective.text} of {self.num_ranks} ranks, "
            f"{self.num_operations} operations)"
        )

    @property
    def num_ranks(self) -> int:
        """Number of ranks."""
        return self.demands[0].num_hosts

    @property
    def num_operations(self) -> int:
        """Number of operations of all ranks."""
        return len(self.rank)

    def operations_of(self, rank: int) -> slice:
        """Where the operations of a rank stand."""
        first, last = np.searchsorted(self.rank, [rank, rank + 1])
        return slice(int(first), int(last))

    @property
    def place_buffer(self) -> int:
        """The buffer that is input and output in one when the program is ``in_place``."""
        kind = int(self.demands[0].kind[0])
        scattered = kind == MOVED and self.collective.name == "scatter"
        return OUTPUT if kind == COPIED or (kind == MOVED and not scattered) else INPUT

    def buffer_sizes(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Chunks of the input, output and scratch of every rank, shape (ranks,) each.

        In place the buffer that is only a part of the other has size 0; the ranks that have nothing
        of the larger (all but the root of a scatter or a gather) keep it.
        """
        sizes = [_held(self.demands[0], first=True), _held(self.demands[-1], first=False)]
        sizes = [size * self.chunks_per_unit for size in sizes]
        if self.in_place:
            larger = self.place_buffer
            sizes[INPUT + OUTPUT - larger][sizes[larger] > 0] = 0
        return sizes[0], sizes[1], self.scratch


def _held(demand: Demand, *, first: bool) -> NDArray[np.int64]:
    """Units that every host has before (``first``) or after a demand."""
    hosts = demand.num_hosts
    kind = demand.kind[demand.item_of_piece()]
    at_root = (kind != 2) if first else (kind == 2)
    root = demand.root[demand.item_of_piece()]
    units = np.zeros(hosts, dtype=np.int64)
    np.add.at(units, root[at_root], demand.weight[at_root])
    group_units = np.zeros(len(demand.group_start) - 1, dtype=np.int64)
    np.add.at(group_units, demand.group[~at_root], demand.weight[~at_root])
    size = np.diff(demand.group_start)
    np.add.at(units, demand.member, np.repeat(group_units, size))
    return units


def _column(values: ArrayLike, name: str, dtype: type) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"column {name} must be a one-dimensional array of integers")
    least, most = -1 if name == "peer" else 0, np.iinfo(dtype).max
    outside = (array < least) | (array > most)
    if outside.any():
        row = int(outside.argmax())
        raise ValueError(
            f"operation {row}: {name} is {int(array[row])}: it is from {least} to {most}"
        )
    return array.astype(dtype)


def _check(program: RankProgram, ranks: int) -> None:
    if program.chunks_per_unit < 1:
        raise ValueError(f"chunks_per_unit is {program.chunks_per_unit}: it must be at least 1")
    if program.demands[0].num_hosts != ranks:
        raise ValueError(f"{ranks} ranks, but a demand of {program.demands[0].num_hosts} hosts")
    if program.scratch.shape != (ranks,) or (program.scratch < 0).any():
        raise ValueError(f"scratch is a number of chunks, 0 or more, for each of {ranks} ranks")
    if program.in_place and program.collective.name == "alltoall":
        raise ValueError("an all-to-all is not in place: its input and output overlap")
    if program.in_place and program.collective.name == CUSTOM:
        raise ValueError("a demand of no name is not in place: input and output may be apart")
    if len({len(getattr(program, name)) for name in COLUMNS}) != 1:
        raise ValueError("the columns of a program must be equally long")
    if (np.diff(program.rank) < 0).any():
        raise ValueError("the operations of a program must be sorted by rank")
    two_sided = np.isin(program.kind, (COPY, ADD, NOP), invert=True)
    rules = [
        (program.rank >= ranks, f"ranks are 0 to {ranks - 1}"),
        (program.kind >= len(KINDS), f"kinds are 0 to {len(KINDS) - 1}"),
        ((program.peer < 0) == two_sided, "what goes between ranks has a peer, and only that"),
        (program.peer >= ranks, f"peers are 0 to {ranks - 1}"),
        (program.source_buffer > SCRATCH, "buffers are 0 to 2"),
        (program.target_buffer > SCRATCH, "buffers are 0 to 2"),
    ]
    for broken, rule in rules:
        if broken.any():
            raise ValueError(f"operation {int(broken.argmax())}: {rule}")
    _check_needs(program)


def _check_needs(program: RankProgram) -> None:
    start, need = program.need_start, program.need
    rising = len(start) == program.num_operations + 1 and (np.diff(start) >= 0).all()
    if not rising or start[0] != 0 or start[-1] != len(need):
        raise ValueError("need_start says where the needs of every operation begin, and all end")
    owner = np.repeat(np.arange(program.num_operations), np.diff(start))
    wrong = (need < 0) | (need >= owner)
    wrong |= program.rank[np.where(wrong, 0, need)] != program.rank[owner]
    if wrong.any():
        row = int(owner[wrong.argmax()])
        raise ValueError(f"operation {row}: it needs earlier operations of the same rank")


# Forest: spanning trees, how often each is taken, and the links that their arcs lead over.


@final
@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Trees of one group of hosts, ``num_trees`` for every unit of weight of a root.

    ``weight`` (int64, hosts) is what a host is the root of, ``is_rank`` (bool, hosts) tells the
    group. Tree t is rooted at host ``root[t]`` and taken ``multiplicity[t]`` times. Part p leads
    into node ``head[p]`` of tree ``tree[p]`` from node ``tail[p]``, hosts of the group or switches
    that copy (add up) and at which a tree may branch, over the links
    ``link[path_start[path[p]] : path_start[path[p] + 1]]`` and is taken ``units[p]`` times; parts
    of one arc are neighbours and add up to the multiplicity of their tree. Loads are at most
    ``scale`` times a link's bandwidth, so a unit of weight takes scale / num_trees where a unit of
    bandwidth carries one in a time of 1. With ``is_sum`` the trees are those of sums, over reversed
    links: data go from the leaves to the root. Arrays (int64 unless said) are copied to read-only.
    """

    network: Network
    is_sum: bool
    weight: NDArray[np.int64]
    is_rank: NDArray[np.bool_]
    num_trees: int
    scale: Fraction
    root: NDArray[np.int64]
    multiplicity: NDArray[np.int64]
    tree: NDArray[np.int64]
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    path: NDArray[np.int64]
    units: NDArray[np.int64]
    path_start: NDArray[np.int64]
    link: NDArray[np.int64]

    def __post_init__(self) -> None:
        for field in fields(self):
            value: Any = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                column = np.array(value, dtype=bool if field.name == "is_rank" else np.int64)
                column.setflags(write=False)
                object.__setattr__(self, field.name, column)

    def __repr__(self) -> str:
        hosts = int(self.is_rank.sum())
        return f"Forest({len(self.root)} trees of height {self.height} over {hosts} hosts)"

    @property
    def inv_rate(self) -> Fraction:
        """Time of a unit of weight, where a unit of bandwidth carries one in a time of 1."""
        return self.scale / self.num_trees

    @property
    def height(self) -> int:
        """The height of the tallest tree."""
        return int(self.heights().max(initial=0))

    def heights(self) -> NDArray[np.int64]:
        """Hosts from the root of every tree to its farthest leaf, the root not counted."""
        hops = self.from_hosts().astype(np.int64)
        tallest = np.zeros(len(self.root), dtype=np.int64)
        np.maximum.at(tallest, self.tree, self.hops_before(hops) + hops)
        return tallest

    def hops(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Every link of the paths of all parts, end to end: the part that it is of, and its id."""
        first, end = self.path_start[self.path], self.path_start[self.path + 1]
        part, place = places(first, end - first)
        return part, self.link[place]

    def passes_twice(self) -> bool:
        """Whether two arcs of a tree lead through one host that is not of the group.

        Such a host passes sums on once: what comes later would be lost.
        """
        part, link = self.hops()
        ends = (self.network.tail, self.network.head)
        node = ends[not self.is_sum][link]
        hosts = self.network.num_hosts
        outside = (node < hosts) & ~self.is_rank[np.minimum(node, hosts - 1)]
        arc = (self.tree * self.network.num_nodes + self.head)[part[outside]]
        visits = np.unique(np.stack([self.tree[part[outside]], node[outside], arc]), axis=1)
        return len(np.unique(visits[:2], axis=1).T) < len(visits.T)

    def from_hosts(self) -> NDArray[np.bool_]:
        """Whether the tail of every part is a host, which passes on a step after it got."""
        is_host: NDArray[np.bool_] = self.tail < self.network.num_hosts
        return is_host

    def hops_before(self, hops: NDArray[np.int64]) -> NDArray[np.int64]:
        """Hops from the root to every part's tail, where an arc takes the most of its parts."""
        nodes = self.network.num_nodes
        into = np.full(len(self.root) * nodes, -1)
        place, above = self.tree * nodes + self.head, self.tree * nodes + self.tail
        into[place] = above
        most = np.zeros(len(into), dtype=np.int64)
        np.maximum.at(most, place, hops)
        before = np.zeros(len(self.tree), dtype=np.int64)
        node = above
        while (into[node] >= 0).any():
            below_root = into[node] >= 0
            before += np.where(below_root, most[node], 0)
            node = np.where(below_root, into[node], node)
        return before


# Book: for a collective on a network, which plan to use for messages of which size.


Plan: TypeAlias = Schedule | Messages
"""Sends over links that are named, or messages between ranks that a network routes."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """A ``plan`` for messages of ``from_bytes`` bytes and more, made by ``maker``."""

    from_bytes: int
    maker: str
    plan: Plan


class Played(NamedTuple):
    """Seconds that the plan of every page took for messages of these sizes, on the clock.

    With ``barriers`` a step waits for all of the step before.
    """

    sizes_bytes: tuple[int, ...]
    times_s: tuple[tuple[float, ...], ...]
    barriers: bool = False


class Advice(NamedTuple):
    """For messages of these sizes on a machine: seconds of the page, from and to, and its protocol.

    ``library`` is what the machine's library takes, algorithm and protocol, in ``library_s`` from
    and to; both are empty where that is not known. ``tuned`` is what it should take instead, ""
    where its own choice stands. ``caveat``: what is assumed of it; ``barriers``: as of ``Played``.
    """

    machine: str
    caveat: str
    sizes_bytes: tuple[int, ...]
    protocols: tuple[str, ...]
    plan_s: tuple[tuple[float, float], ...]
    library: tuple[str, ...] = ()
    library_s: tuple[tuple[float, float], ...] = ()
    tuned: tuple[str, ...] = ()
    barriers: bool = False

    def verdicts(self) -> tuple[str, ...]:
        """Whether pages are faster than the library, slower, or a tie, in which the library stays.

        >>> Advice("m", "", (1, 9), ("LL",) * 2, ((1, 2),) * 2, ("tree LL",) * 2, ((3, 4), (2, 4))
        ...        ).verdicts()
        ('faster', 'tie')
        """
        pairs = zip(self.plan_s, self.library_s, strict=True) if self.library_s else ()
        return tuple(verdict(*pair) for pair in pairs)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Book:
    """Plans of a collective for all sizes of a message; a page ends where the next begins.

    A unit of the network's bandwidth is ``unit_Bps`` bytes a second; ``played`` says why pages
    begin where they do on plain links, ``advice`` on a machine. Raises ValueError unless the first
    page begins at 0, pages ascend, all plans are of the collective and on the network, and times
    are of every page and size.
    """

    network: Network
    unit_Bps: Fraction  # noqa: N815 - units keep their case
    collective: Collective
    pages: tuple[Page, ...]
    played: Played | None = None
    advice: Advice | None = None

    def __post_init__(self) -> None:
        begins = [page.from_bytes for page in self.pages]
        if not begins or begins[0] != 0 or begins != sorted(set(begins)):
            raise ValueError(f"pages begin at {begins} bytes: from 0 on, each after the last")
        if self.unit_Bps <= 0:
            raise ValueError(f"unit_Bps is {self.unit_Bps}: it must be positive")
        for page in self.pages:
            rule = self._foreign(page.plan)
            if rule is not None:
                raise ValueError(f"the plan from {page.from_bytes} bytes on {rule}")
        if self.played is not None and [len(self.played.sizes_bytes)] * len(begins) != [
            len(times) for times in self.played.times_s
        ]:
            raise ValueError("times_s has not a row a page and a time a size")
        if self.advice is not None:
            told = self.advice
            own = {len(told.protocols), len(told.plan_s)}
            known = {len(told.library), len(told.library_s), len(told.tuned)}
            if own != {len(told.sizes_bytes)} or (known != {0} and known != own):
                raise ValueError("advice has not a protocol and an interval a size")
            if any(low > high for low, high in (*told.plan_s, *told.library_s)):
                raise ValueError("advice has an interval that ends before it begins")

    def _foreign(self, plan: Plan) -> str | None:
        """What a plan has that this collective or network has not."""
        if plan.collective != self.collective:
            return f"is of {plan.collective.text}, not of {self.collective.text}"
        if isinstance(plan, Messages):
            hosts = plan.num_ranks
        else:
            hosts = plan.num_hosts
            links, own = plan.topology, self.network
            if (links.num_nodes, links.num_links) != (own.num_nodes, own.num_links) or not (
                (links.tail == own.tail).all() and (links.head == own.head).all()
            ):
                return "is over other links than the network's"
        if hosts != self.network.num_hosts:
            return f"is of {hosts} hosts, not of {self.network.num_hosts}"
        return None

    def page_of(self, message_bytes: int) -> Page:
        """The page for a message; ValueError for a negative size."""
        if message_bytes < 0:
            raise ValueError(f"a message of {message_bytes} bytes: it cannot be negative")
        return next(page for page in reversed(self.pages) if page.from_bytes <= message_bytes)
