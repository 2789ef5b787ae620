"""Traces of PyTorch's profiler as jobs: the kernels of one rank, and its collectives.

The ``traceEvents`` of a rank say when its kernels ran. Kernels of the NCCL library with the
attributes ``Collective name``, ``In msg nelems``, ``Out msg nelems``, ``dtype`` and ``Group size``
are collectives, those without as the operation says that launched them; all others are computation,
and so are, for as long as they ran, those that communicate as no collective of jobs does.
Which ranks a group has is in ``Process Group Ranks``, or ``Global rank start`` and ``Global rank
stride``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.shown import shown
from ocs_codesign.jobs.files.profile_steps import Launches, ProfiledStep, median_step, union
from ocs_codesign.jobs.job_draft import JobDraft

if TYPE_CHECKING:
    from ocs_codesign.jobs.job_graph import JobGraph


MAX_KERNELS, MAX_RANKS = 1_000_000, 2**20
_TICKS_OF_MICRO = 1000
_MAX_MICROS, _MAX_TOLD = 1e12, 40
_ELEMENT_BYTES = {
    **dict.fromkeys(("double", "float64", "long", "int64"), 8),
    **dict.fromkeys(("float", "float32", "int", "int32"), 4),
    **dict.fromkeys(("half", "float16", "bfloat16", "short", "int16"), 2),
    **dict.fromkeys(("byte", "char", "bool", "int8", "uint8", "float8_e4m3fn", "float8_e5m2"), 1),
}
_COLLECTIVES = {
    **{name: name for name in ("allreduce", "allgather", "alltoall", "broadcast", "reduce")},
    "reducescatter": "reduce-scatter",
}


@final
@dataclass(frozen=True, slots=True)
class _Kernel:
    """From when until when it ran (ticks); what it sends, with M and ranks, if a collective.

    ``between`` are the first and the last of its ranks, and ``step`` that between two of them: 0 if
    it is not always the same, or not known. ``launched_in`` is the number of a step of training.
    ``unread`` is what it calls itself if it communicates as no collective of jobs does.
    """

    begin: int
    end: int
    collective: str = ""
    size_bytes: int = 0
    num_ranks: int = 1
    between: tuple[int, int] = (0, 0)
    step: int = 0
    launched_in: int | None = None
    unread: str = ""


def is_profile(value: Any) -> bool:
    """Whether the content of a JSON file is a trace of the profiler."""
    return isinstance(value, dict) and isinstance(value.get("traceEvents"), list)


def job_of_profile(value: dict[str, Any], *, ranks_alone: bool = False) -> JobGraph:
    """The job of the median step of a trace, of one class of all ranks, as ``profiled_job``."""
    return profiled_job(value, ranks_alone=ranks_alone)[0]


def profiled_job(
    value: dict[str, Any], *, ranks_alone: bool = False
) -> tuple[JobGraph, ProfiledStep]:
    """The job of the kernels in a trace, of one class of all ranks, and the step that it is of.

    That is the median of all steps but the first, or all kernels where no step is marked. Ranks are
    as many as ``distributedInfo`` says, or else as the groups have. With ``ranks_alone``
    groups of some of the ranks must have ranks in even steps, which the trace says.

    Computation is one stream in the order in which it ran; what ran nothing is a node "idle". A
    collective waits for the computation that had ended when it began, or for the collective before
    it. Computation that began after an idle time during a collective, when that had ended, waits
    for it; so does the end. Raises ValueError, with the event and the rule, for what is no such
    trace.
    """
    launches = Launches.of(value["traceEvents"])
    world, rank = _world_size(value), _rank(value)
    kernels = [
        kernel
        for number, event in enumerate(value["traceEvents"])
        if (kernel := _kernel(event, number, launches, world, rank)) is not None
    ]
    if not kernels:
        raise ValueError("traceEvents has no kernel: the trace is of processors without any")
    if len(kernels) > MAX_KERNELS:
        raise ValueError(f"traceEvents has {len(kernels)} kernels: at most {MAX_KERNELS} are read")
    kernels, begin, step = _of_median_step(kernels, launches)
    computes = _streams([kernel for kernel in kernels if not kernel.collective])
    messages = sorted(
        (kernel for kernel in kernels if kernel.collective), key=lambda one: (one.begin, one.end)
    )
    ranks = max(world, *(max(one.num_ranks, one.between[1] + 1) for one in kernels))
    for kernel in messages if ranks_alone else ():
        if kernel.num_ranks not in (1, ranks) and not kernel.step:
            raise ValueError(
                f"a group of {kernel.num_ranks} of {ranks} ranks does {kernel.collective}: "
                "'Process Group Ranks' does not say which, in even steps"
            )
    return _job(computes, messages, ranks, begin), step


def _of_median_step(
    kernels: list[_Kernel], launches: Launches
) -> tuple[list[_Kernel], int, ProfiledStep]:
    """The kernels of the median step, cut off where it begins, when that is, and what it took."""
    ends: dict[int, int] = {}
    for kernel in kernels:
        if kernel.launched_in is not None:
            ends[kernel.launched_in] = max(ends.get(kernel.launched_in, 0), kernel.end)
    name, begin = "", None
    mine = kernels
    if ends:
        chosen, begin = median_step(ends)
        mine = [kernel for kernel in kernels if kernel.launched_in == chosen]
        name = launches.steps[chosen][2]
    first = min(kernel.begin for kernel in mine)
    origin = first if begin is None else begin
    cut = [replace(one, begin=max(one.begin, origin)) for one in mine if one.end > origin] or mine
    spans = [(one.begin, one.end) for one in mine]
    computes = [(one.begin, one.end) for one in mine if not one.collective]
    talks = [(one.begin, one.end) for one in mine if one.collective]
    period = max(one.end for one in mine) - origin
    busy, compute = union(spans), union(computes)
    ticks_a_second = 1e6 * _TICKS_OF_MICRO
    step = ProfiledStep(
        name,
        max(1, len(ends) - 1),
        period_s=period / ticks_a_second,
        busy_s=busy / ticks_a_second,
        compute_s=compute / ticks_a_second,
        collectives_s=union(talks) / ticks_a_second,
        exposed_s=(busy - compute) / ticks_a_second,
        idle_s=max(0, period - busy) / ticks_a_second,
        kernels=len(mine),
        collectives=len(talks),
        as_measured=tuple(
            (
                name,
                union((one.begin, one.end) for one in mine if one.unread == name) / ticks_a_second,
            )
            for name in sorted({one.unread for one in mine} - {""})
        ),
    )
    return cut, origin, step


def _world_size(value: dict[str, Any]) -> int:
    """The ranks that the trace says there are, 1 if it does not."""
    told = value.get("distributedInfo")
    told = told.get("world_size") if isinstance(told, dict) else None
    if told is None:
        return 1
    if isinstance(told, bool) or not isinstance(told, int) or not 1 <= told <= MAX_RANKS:
        raise ValueError(
            f"distributedInfo.world_size is {shown(told)}: it is from 1 to {MAX_RANKS}"
        )
    return told


def _rank(value: dict[str, Any]) -> int | None:
    """The rank whose trace it is, None if the trace does not say."""
    told = value.get("distributedInfo")
    rank = told.get("rank") if isinstance(told, dict) else None
    return rank if type(rank) is int else None


def _kernel(
    event: Any, number: int, launches: Launches, world: int, rank: int | None
) -> _Kernel | None:
    """The kernel of an event, None for another kind of event."""
    if not isinstance(event, dict) or event.get("ph") != "X":
        return None
    if str(event.get("cat")).lower() not in ("kernel", "gpu_memcpy", "gpu_memset"):
        return None
    where = f"traceEvents[{number}]"
    begin, lasts = (_micros(event, key, where) for key in ("ts", "dur"))
    span = round(begin * _TICKS_OF_MICRO), round((begin + lasts) * _TICKS_OF_MICRO)
    args = event.get("args")
    args = args if isinstance(args, dict) else {}
    step = launches.step_of(args.get("correlation"))
    if "nccl" not in str(event.get("name")).lower():
        return _Kernel(*span, launched_in=step)
    if not isinstance(args.get("Collective name"), str):
        args = {**args, **_told_by_operation(args, launches, world, where)}
    told = args["Collective name"]
    plain = told.lower().replace("_", "").removeprefix("nccl:").removesuffix("base")
    plain = plain.removesuffix("coalesced").removesuffix("intotensor").removesuffix("tensor")
    name = _COLLECTIVES.get(plain.removesuffix("v"))
    if name is None:
        return _Kernel(*span, launched_in=step, unread=told[:_MAX_TOLD])
    element = _ELEMENT_BYTES.get(str(args.get("dtype")).lower())
    if element is None:
        raise ValueError(f"{where} has the dtype {shown(args.get('dtype'))}: it is not known")
    largest = max(_count(args, key, where) for key in ("In msg nelems", "Out msg nelems"))
    ranks = max(1, _count(args, "Group size", where))
    if ranks > MAX_RANKS:
        raise ValueError(f"{where} has a group of {ranks}: at most {MAX_RANKS} are read")
    members = _members(args, ranks, where)
    if name == "alltoall" and ranks > 1:
        largest = _exchanged(args, ranks, rank, where, is_uneven=plain.endswith("v"))
    return _Kernel(*span, name, largest * element, ranks, *members, launched_in=step)


def _exchanged(
    args: dict[str, Any], ranks: int, rank: int | None, where: str, *, is_uneven: bool
) -> int:
    """Elements of the even exchange in which a rank sends or gets as many as it does in this one.

    PyTorch says how many rows go to each rank of the group, and how many come; rows are alike.
    """
    most = 0
    for way in ("In", "Out"):
        elements = _count(args, f"{way} msg nelems", where)
        told = args.get(f"{way} split size")
        try:
            rows = [int(part) for part in _listed(told)]
        except (TypeError, ValueError):
            rows = [-1]
        if not rows and not is_uneven:
            most = max(most, elements)
            continue
        position = _position(args, rank, ranks)
        if len(rows) != ranks or min(rows) < 0 or position is None:
            raise ValueError(
                f"{where} is an exchange of unequal parts: '{way} split size' with a number for "
                f"each of {ranks} ranks, and the rank in 'Process Group Ranks', say what goes where"
            )
        others = sum(rows) - rows[position]
        most = max(most, -(-elements * others * ranks // (max(1, sum(rows)) * (ranks - 1))))
    return most


def _position(args: dict[str, Any], rank: int | None, num_ranks: int) -> int | None:
    """Which of its group a rank is, None if the group does not name it."""
    named = [str(part) for part in _listed(args.get("Process Group Ranks"))]
    if not named and rank is not None and rank < num_ranks:
        return rank
    return named.index(str(rank)) if str(rank) in named else None


def _listed(told: Any) -> list[Any]:
    """A list that may be written as a text."""
    parts = told.strip("[] ").split(",") if isinstance(told, str) else told
    parts = parts if isinstance(parts, list) else []
    return [part.strip() if isinstance(part, str) else part for part in parts if part != ""]


def _told_by_operation(
    args: dict[str, Any], launches: Launches, world: int, where: str
) -> dict[str, Any]:
    """What the operation on the processor says of a kernel without a 'Collective name'."""
    operation = launches.operation_of.get(args.get("External id"))
    dims = None if operation is None else operation["Input Dims"]
    kind = None if operation is None else operation.get("Input type")
    try:
        elements = sum(math.prod(map(int, each)) for each in dims or ())
        kind = str((kind or [""])[0]).lower().removeprefix("c10::")
    except (TypeError, ValueError):
        elements = 0
    if operation is None or not elements:
        raise ValueError(
            f"{where} is a kernel of NCCL without 'Collective name', which PyTorch 2.2 and later "
            "say, and no operation nccl:... with 'Input Dims' launched it"
        )
    name = str(operation["name"])
    # Of an allgather it has the shard; M is what all of them are together.
    gathered = world if "gather" in name else 1
    return {
        **{"Collective name": name, "dtype": kind, "Group size": world},
        **{"In msg nelems": elements, "Out msg nelems": elements * gathered},
    }


def _members(args: dict[str, Any], num_ranks: int, where: str) -> tuple[tuple[int, int], int]:
    """The first and the last rank of a group, and the step between two, 0 if none is known."""
    told = args.get("Process Group Ranks")
    parts = _listed(told)
    is_cut = "..." in parts
    head = parts[: parts.index("...")] if is_cut else parts
    try:
        ranks = [int(part) for part in head]
        tail = [int(part) for part in parts if part != "..."][len(head) :]
    except (TypeError, ValueError):
        ranks = tail = []
    if not ranks:
        start, step = (args.get(f"Global rank {key}") for key in ("start", "stride"))
        if not (type(start) is int and type(step) is int and start >= 0 and step > 0):
            return (0, num_ranks - 1), 0
        ranks, is_cut, tail = [start, start + step][:num_ranks], num_ranks > 2, []
    whole = [*ranks, *tail]
    if sorted(set(whole)) != whole or not 0 <= whole[0] <= whole[-1] < MAX_RANKS:
        raise ValueError(f"{where} has the group {shown(told)}: ranks ascend, from 0 on")
    if len(whole) > num_ranks or (not is_cut and len(whole) < num_ranks):
        raise ValueError(f"{where} has a group of {num_ranks} ranks: it names {len(whole)}")
    steps = {other - one for one, other in pairwise(ranks)}
    step = steps.pop() if len(steps) == 1 else 0
    last = whole[-1] if tail or not is_cut else whole[0] + step * (num_ranks - 1)
    is_even = step > 0 and last == whole[0] + step * (num_ranks - 1)
    return (whole[0], min(last, MAX_RANKS - 1)), step if is_even else 0


def _micros(event: dict[str, Any], key: str, where: str) -> float:
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{where}.{key} is {shown(value)}: it must be a number of microseconds")
    if not math.isfinite(value) or not 0 <= value <= 1e4 * _MAX_MICROS:
        raise ValueError(f"{where}.{key} is {shown(value)}: it must not be negative, nor so large")
    return float(value)


def _count(args: dict[str, Any], key: str, where: str) -> int:
    value = args.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**50:
        raise ValueError(f"{where}.args[{key!r}] is {shown(value)}: it must be a whole number")
    return value


def _streams(kernels: list[_Kernel]) -> list[tuple[int, int]]:
    """When some stream computed: intervals that do not touch, in order."""
    joined: list[tuple[int, int]] = []
    for kernel in sorted(kernels, key=lambda one: one.begin):
        if joined and kernel.begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], kernel.end)
        else:
            joined.append((kernel.begin, kernel.end))
    return joined


def _job(
    computes: list[tuple[int, int]], messages: list[_Kernel], ranks: int, begin_all: int
) -> JobGraph:
    draft = JobDraft(1, [ranks])
    # A collective comes before what begins with it.
    events = [(kernel.begin, 0, (number, kernel.end)) for number, kernel in enumerate(messages)]
    events += [(begin, 1, (begin, end)) for begin, end in _cut(computes, messages)]
    last: list[int] = []  # the computation before
    now = begin_all  # what computation has been written until
    running: list[tuple[int, int]] = []  # collectives that nothing waits for yet: end and node
    before: list[int] = []  # the collective before
    for begin, is_computation, (one, other) in sorted(events):
        if not is_computation:
            kernel = messages[one]
            if not running and begin > now:
                last, now = [draft.compute(0, begin - now, last, label="idle")], begin
            (node,) = draft.collective(
                *(kernel.collective, (0,), kernel.size_bytes, {0: [*last, *before]}),
                num_ranks=kernel.num_ranks,
                between=kernel.between,
                label=kernel.collective,
            )
            before = [node]
            running.append((other, node))
            continue
        ended = [node for end, node in running if end <= begin]
        if begin > now and ended:  # it was idle, and what it waited for had come
            latest = max(end for end, _ in running if end <= begin)
            last = [*last, *ended]
            running = [pair for pair in running if pair[0] > begin]
            now = max(now, latest)
        if begin > now and not running:
            last, now = [draft.compute(0, begin - now, last, label="idle")], begin
        last = [draft.compute(0, other - begin, last, label="computation")]
        now = max(now, other)
    draft.compute(0, 0, [*last, *(node for _, node in running)], label="end")
    return draft.graph()


def _cut(computes: list[tuple[int, int]], messages: list[_Kernel]) -> list[tuple[int, int]]:
    """The intervals, cut where a collective begins: what came before is what it waited for."""
    begins = sorted({kernel.begin for kernel in messages})
    pieces, at = [], 0
    for begin, end in computes:
        rest = begin
        while at < len(begins) and begins[at] <= begin:
            at += 1
        while at < len(begins) and begins[at] < end:
            pieces.append((rest, begins[at]))
            rest = begins[at]
            at += 1
        pieces.append((rest, end))
    return pieces
