"""The process group "ocs" of PyTorch: schedules of a shelf, and gloo or NCCL for all else.

Every call is counted by the way that it went. On creation all ranks compare their plans.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ocs_codesign.interop.runtimes.moves import execute, moves_for, packed, put
from ocs_codesign.interop.runtimes.shelf import shelves_of
from ocs_codesign.interop.runtimes.torch_wire import (
    STREAMS,
    TAGS,
    BatchedGroup,
    OcsWork,
    TorchWire,
    Worker,
    done,
    enqueued,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ocs_codesign.interop.runtimes.moves import RankMoves
    from ocs_codesign.interop.runtimes.shelf import RunPage, Shelf

NAME = "ocs"
PLANS = "OCS_PLANS"
"""The variable with the paths of books and designs."""

OURS = "schedule"
_LOG = logging.getLogger("ocs_codesign")
_SHELVES: dict[int, Shelf] = {}
_COUNTS: Counter[tuple[str, str]] = Counter()
_SAID: set[tuple[str, int, str]] = set()
"""Collectives, ranks and reasons of which a warning was given: once, whatever the group."""


def _multiply(target: Any, content: Any) -> None:
    target.mul_(content)


def _add(target: Any, content: Any) -> None:
    target.add_(content)


def _chosen(choose: Any, target: Any, content: Any) -> None:
    choose(target, content, out=target)


_OPS: tuple[tuple[Any, Callable[[Any, Any], None]], ...] = (
    (dist.ReduceOp.SUM, _add),
    (dist.ReduceOp.AVG, _add),
    (dist.ReduceOp.MAX, partial(_chosen, torch.maximum)),
    (dist.ReduceOp.MIN, partial(_chosen, torch.minimum)),
    (dist.ReduceOp.PRODUCT, _multiply),
)


def use(*plans: Any) -> None:
    """Run these books, designs and plans, or the paths of saved ones, in groups made from now on.

    Raises what ``shelves_of`` raises.
    """
    _SHELVES.clear()
    _SAID.clear()
    _SHELVES.update(shelves_of(plans))


def counts() -> dict[tuple[str, str], int]:
    """Calls of this process by collective and way: ``schedule``, or why it was the library's."""
    return dict(_COUNTS)


def report() -> str:
    """Which calls of this process went by schedules, and why others did not: a line each."""
    lines = [
        f"{collective}: {number} by {'schedules' if way == OURS else f'the library: {way}'}"
        for (collective, way), number in sorted(_COUNTS.items())
    ]
    return "\n".join(lines) or "no collective was called"


class _Call(NamedTuple):
    """A collective to be done: M in bytes, elements as of ``sizes``, and the rest."""

    collective: str
    message_bytes: int
    elements: int
    given: Any
    result: Any
    op: Any = None
    root: int | None = None


@final
class OcsGroup(dist.ProcessGroup):  # type: ignore[misc]
    """Ranks that run the schedules of a shelf, and hand what it has not to an inner group."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        if not _SHELVES and os.environ.get(PLANS):
            use(*os.environ[PLANS].split(os.pathsep))
        self._shelf = _SHELVES.get(size)
        self._limit, self._name, self._desc = timeout, "", ""
        self._tag = 0
        self._worker = Worker()
        self._compare(store, rank, size)
        self._inner = _library(dist.PrefixStore("ocs-library", store), rank, size, timeout)
        self._wires: dict[str, Any] = {}
        self._met: set[Any] = set()
        if self._shelf:
            own = dist.PrefixStore("ocs-wire", store)
            self._wires["cpu"] = dist.ProcessGroupGloo(own, rank, size, timeout)
            if _has_nccl():
                self._wires["cuda"] = BatchedGroup(self._inner)

    def _compare(self, store: Any, rank: int, size: int) -> None:
        """ValueError if ranks have different plans: they would wait for each other, or mix data."""
        own = self._shelf.digest() if self._shelf else "none"
        store.set(f"ocs-plans/{rank}", own)
        told = [store.get(f"ocs-plans/{each}").decode() for each in range(size)]
        if len(set(told)) > 1:
            other = next(each for each in range(size) if told[each] != told[0])
            raise ValueError(
                f"ranks have different plans: those of rank 0 are {told[0]}, of rank {other} "
                f"{told[other]}: give all the same books and designs"
            )

    # Which way a call goes.

    def _page(self, call: _Call) -> RunPage | str:
        """The page that does a call, or why none can."""
        tensors = (call.given, call.result)
        if self.size() == 1:
            return "one rank"
        if self._shelf is None:
            return f"no plan for {self.size()} ranks"
        if any(each.is_sparse or not each.is_contiguous() for each in tensors):
            return "sparse or strided"
        if call.given.device.type not in self._wires:
            return f"tensors of {call.given.device.type}"
        if call.given.dtype != call.result.dtype:
            return "two dtypes"
        if not call.given.numel() or not call.result.numel():
            return "empty"
        if call.op is not None and (reason := _unfit(call.op, call.given.dtype)) is not None:
            return reason
        page = self._shelf.page(call.collective, call.message_bytes, call.root)
        return page or ("no page" if call.root is None else f"no page with root {call.root}")

    def _ours(self, calls: Sequence[_Call], results: Any, opts: Any) -> OcsWork | None:
        """Do the calls by schedules if all can be, inline if the caller waits anyway."""
        devices = {each.device for call in calls for each in (call.given, call.result)}
        found = [self._page(call) if len(devices) == 1 else "two devices" for call in calls]
        pages = [page for page in found if not isinstance(page, str)]
        if len(pages) < len(found) or not calls:
            reason = next((page for page in found if isinstance(page, str)), "empty")
            self._count(calls[0].collective if calls else "nothing", reason)
            return None
        jobs = []
        for call, page in zip(calls, pages, strict=True):
            moves = moves_for(page.traffic, self.rank(), call.elements)
            jobs.append(partial(self._perform, call, page, moves, self._tag))
            self._tag = (self._tag + moves.num_steps) % TAGS
            _COUNTS[call.collective, OURS] += 1
        work = OcsWork(results)
        job, (device,) = partial(_in_turn, jobs), devices
        if device.type in STREAMS:
            enqueued(work, partial(self._meet, device, job), device)
        elif getattr(opts, "asyncOp", True):
            self._worker.begin(work, job)
        else:
            done(work, job)
        return work

    def _count(self, collective: str, reason: str) -> None:
        _COUNTS[collective, reason] += 1
        said = (collective, self.size(), reason)
        if self.rank() == 0 and self.size() > 1 and said not in _SAID:
            _SAID.add(said)
            _LOG.warning("%s of %d ranks by the library: %s", *said)

    def _meet(self, device: Any, job: Callable[[], None]) -> None:
        """Do a job on a device, where all ranks must be in the first call of NCCL."""
        if device not in self._met:
            self._inner.allreduce([torch.zeros(1, device=device)]).wait()
            self._met.add(device)
        job()

    def _perform(self, call: _Call, page: RunPage, moves: RankMoves, tag: int) -> None:
        given, result = call.given.view(-1), call.result.view(-1)
        group = self._wires[given.device.type]
        wire = TorchWire(group, given, page.text, moves.num_steps, self._limit)
        whole = ((0, moves.size),)
        is_result = moves.wanted == whole
        buffer = result if is_result else wire.room(moves.size)
        if moves.given != whole or not is_result or given.data_ptr() != result.data_ptr():
            put(buffer, moves.given, given)
        combine = next((each for op, each in _OPS if call.op == op), _add)
        execute(moves, buffer, wire, combine, tag, TAGS)
        if moves.wanted and not is_result:
            result.copy_(packed(buffer, moves.wanted, result.numel(), wire))
        if call.op == dist.ReduceOp.AVG:
            result.div_(self.size())

    def _library(self, name: str, collective: str, reason: str, *given: Any) -> Any:
        self._count(collective, reason)
        return getattr(self._inner, name)(*(each for each in given if each is not None))

    # What torch calls.

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """Sum, or another operation, of the tensors of all ranks."""
        opts = c10d.AllreduceOptions() if opts is None else opts
        return self._reduced(tensors, opts) or self._inner.allreduce(tensors, opts)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        """The same of several tensors."""
        opts = c10d.AllreduceCoalescedOptions() if opts is None else opts
        return self._reduced(tensors, opts) or self._inner.allreduce_coalesced(tensors, opts)

    def _reduced(self, tensors: Any, opts: Any) -> OcsWork | None:
        calls = [
            _Call("allreduce", each.nbytes, each.numel(), each, each, opts.reduceOp)
            for each in tensors
        ]
        return self._ours(calls, tensors, opts)

    def all_gather_single(self, output: Any, given: Any, opts: Any = None) -> Any:
        """The parts of all ranks, in one tensor."""
        opts = c10d.AllgatherOptions() if opts is None else opts
        return self._gathered([output], [given], opts) or self._inner.all_gather_single(
            output, given, opts
        )

    def all_gather_single_coalesced(self, outputs: Any, given: Any, opts: Any = None) -> Any:
        """The same of several tensors."""
        opts = c10d.AllgatherOptions() if opts is None else opts
        work = self._gathered(outputs, given, opts)
        return work or self._inner.all_gather_single_coalesced(outputs, given, opts)

    def _gathered(self, outputs: Any, given: Any, opts: Any) -> OcsWork | None:
        calls = [
            _Call("allgather", output.nbytes, each.numel(), each, output)
            for output, each in zip(outputs, given, strict=True)
        ]
        return self._ours(calls, outputs, opts)

    def reduce_scatter_single(self, output: Any, given: Any, opts: Any = None) -> Any:
        """A rank's part of the sum of all ranks."""
        opts = c10d.ReduceScatterOptions() if opts is None else opts
        return self._scattered([output], [given], opts) or self._inner.reduce_scatter_single(
            output, given, opts
        )

    def reduce_scatter_single_coalesced(self, outputs: Any, given: Any, opts: Any = None) -> Any:
        """The same of several tensors."""
        opts = c10d.ReduceScatterOptions() if opts is None else opts
        work = self._scattered(outputs, given, opts)
        return work or self._inner.reduce_scatter_single_coalesced(outputs, given, opts)

    def _scattered(self, outputs: Any, given: Any, opts: Any) -> OcsWork | None:
        calls = [
            _Call("reduce-scatter", each.nbytes, output.numel(), each, output, opts.reduceOp)
            for output, each in zip(outputs, given, strict=True)
        ]
        return self._ours(calls, outputs, opts)

    def all_to_all_single(
        self, output: Any, given: Any, received: Any = (), sent: Any = (), opts: Any = None
    ) -> Any:
        """Every rank's part for every other; unequal parts are the library's."""
        opts = c10d.AllToAllOptions() if opts is None else opts
        even = len({*received, *sent}) <= 1 and given.numel() == output.numel()
        if even and given.numel() % self.size() == 0:
            part = given.numel() // self.size()
            work = self._ours(
                [_Call("alltoall", given.nbytes, part, given, output)], [output], opts
            )
            if work is not None:
                return work
            return self._inner.all_to_all_single(output, given, received, sent, opts)
        arguments = (output, given, received, sent, opts)
        return self._library("all_to_all_single", "alltoall", "unequal parts", *arguments)

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        """The root's tensor for all ranks."""
        opts = c10d.BroadcastOptions() if opts is None else opts
        return self._rooted("broadcast", tensors, opts) or self._inner.broadcast(tensors, opts)

    def reduce(self, tensors: Any, opts: Any = None) -> Any:
        """Sum, or another operation, for the root."""
        opts = c10d.ReduceOptions() if opts is None else opts
        return self._rooted("reduce", tensors, opts) or self._inner.reduce(tensors, opts)

    def _rooted(self, name: str, tensors: Any, opts: Any) -> OcsWork | None:
        op = getattr(opts, "reduceOp", None)
        calls = [
            _Call(name, each.nbytes, each.numel(), each, each, op, opts.rootRank)
            for each in tensors
        ]
        return self._ours(calls, tensors, opts)

    def allgather(self, outputs: Any, given: Any, opts: Any = None) -> Any:
        """The tensors of all ranks, in a list."""
        return self._library("allgather", "allgather", "a list of tensors", outputs, given, opts)

    def reduce_scatter(self, outputs: Any, given: Any, opts: Any = None) -> Any:
        """A rank's tensor of lists that are summed up."""
        reason = "a list of tensors"
        return self._library("reduce_scatter", "reduce-scatter", reason, outputs, given, opts)

    def alltoall(self, outputs: Any, given: Any, opts: Any = None) -> Any:
        """A tensor for every rank."""
        return self._library("alltoall", "alltoall", "a list of tensors", outputs, given, opts)

    def gather(self, outputs: Any, given: Any, opts: Any = None) -> Any:
        """The tensors of all ranks for the root."""
        return self._library("gather", "gather", "a list of tensors", outputs, given, opts)

    def scatter(self, outputs: Any, given: Any, opts: Any = None) -> Any:
        """The root's tensors, one for every rank."""
        return self._library("scatter", "scatter", "a list of tensors", outputs, given, opts)

    def barrier(self, opts: Any = None) -> Any:
        """Wait for all ranks."""
        return self._inner.barrier(c10d.BarrierOptions() if opts is None else opts)

    def send(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        """What the user sends."""
        return self._inner.send(tensors, peer, tag)

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        """What the user receives."""
        return self._inner.recv(tensors, peer, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """What the user receives from anyone."""
        return self._inner.recv_anysource(tensors, tag)

    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def shutdown(self) -> None:
        """Do what is left, and end."""
        self._worker.end()
        for wire in self._wires.values():
            if isinstance(wire, BatchedGroup):
                wire.end()

    def getBackendName(self) -> str:  # noqa: N802
        """The name of the backend."""
        return NAME

    # Torch's own keep no name for a group that is written in Python.

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Take a name."""
        self._name = name

    def getGroupName(self) -> str:  # noqa: N802
        """The name."""
        return self._name

    def setGroupDesc(self, desc: str) -> None:  # noqa: N802
        """Take a description."""
        self._desc = desc

    def getGroupDesc(self) -> str:  # noqa: N802
        """The description."""
        return self._desc


def _in_turn(jobs: Sequence[Callable[[], None]]) -> None:
    for job in jobs:
        job()


def _unfit(op: Any, dtype: Any) -> str | None:
    """Why schedules do not do an operation, None if they do.

    The operation is compared, not read: its text differs between releases.
    """
    if not any(op == each for each, _ in _OPS):
        return "another operation"
    if dtype == torch.bool or (dtype.is_complex and op != dist.ReduceOp.SUM):
        return f"operation on {dtype}"
    if op == dist.ReduceOp.AVG and not dtype.is_floating_point:
        return f"average of {dtype}"
    return None


def _library(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """A group with the library's backends of every device."""
    group = dist.ProcessGroup(store, rank, size)
    kinds = dist.ProcessGroup.BackendType
    gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
    group._register_backend(torch.device("cpu"), kinds.GLOO, gloo)
    group._set_default_backend(kinds.GLOO)
    if _has_nccl():
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = timeout
        nccl = dist.ProcessGroupNCCL(dist.PrefixStore("nccl", store), rank, size, options)
        group._register_backend(torch.device("cuda"), kinds.NCCL, nccl)
    return group


def _has_nccl() -> bool:
    return bool(torch.cuda.is_available() and dist.is_nccl_available())


def register() -> None:
    """Make "ocs" a backend of torch.distributed; again is nothing."""
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, OcsGroup, devices=["cpu", "cuda"])
