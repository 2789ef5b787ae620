"""Experiment: schedules of ours as one Pallas kernel of remote DMAs, under TPU interpret mode.

Allgather and reduce-scatter of 8 ranks on a ring, on a generalized Kautz digraph and on a torus
that has lost a cable, each from the program of ranks that a book's page is lowered to. The kernel
sends every message by ``make_async_remote_copy`` into a room of its own at its receiver, with
semaphores of its own, after a barrier between those that send to each other. Its results are
compared bit by bit with the collectives of ``ocs_codesign.jax`` over the same messages, and with
numpy; races of memory are looked for.

    python experiments/schedules_as_remote_dma.py [--topology RECIPE]

prints a table of all, or of one of them, and writes no file. It interprets the kernel on virtual
devices of one processor: it was not compiled for a TPU, and says nothing of times.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocs_codesign import Topology, build, parse
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.runtimes.tables import tables_of
from ocs_codesign.interop.runtimes.traffic import traffic_of
from ocs_codesign.schedules.design import build_topology

if TYPE_CHECKING:
    from ocs_codesign.core.schedule import Schedule
    from ocs_codesign.interop.runtimes.traffic import RankMessages

SEED, WIDTH = 7, 128
"""Elements of a chunk: a row of a TPU's registers."""
DAMAGED = "Torus((2, 4)) without the cable 0 - 1"
TOPOLOGIES = ("BiRing(2, 8)", "GeneralizedKautz(2, 8)", DAMAGED)
COLLECTIVES = ("allgather", "reduce-scatter")
FIELDS = ("topology", "collective", "steps", "messages", "rounds", "races", "bits", "sha256_16")


def scheduled(topology: str, collective: str) -> Schedule:
    """The schedule of a design, or of a torus without a cable."""
    if topology != DAMAGED:
        return build(parse(topology), collective).schedule
    whole = parse("Torus((2, 4))").topology()
    ends = np.stack([whole.tail, whole.head])
    (lost,) = np.nonzero((np.sort(ends, axis=0) == [[0], [1]]).all(axis=0))
    kept = np.setdiff1d(np.arange(ends.shape[1]), [lost[0], *lost[whole.tail[lost] == 1][:1]])
    return build_topology(Topology(8, *ends[:, kept]), collective).schedule


class DmaTables(NamedTuple):
    """What ranks do, by rank and then by round, or by message in the order of arrival's use; int32.

    ``to`` is the target of a round, -1 for none, and ``sends`` the slots that go there; ``comes``
    is the round in which a message comes, -1 for none, and ``adds`` and ``copies`` the slots where
    its rows go. ``sources`` are those that send to a rank at all, -1 behind them, and ``targets``
    how many it sends to. A row that is not there is read from the slot of zeros, and written to one
    more behind it.
    """

    to: np.ndarray[Any, Any]
    sends: np.ndarray[Any, Any]
    comes: np.ndarray[Any, Any]
    adds: np.ndarray[Any, Any]
    copies: np.ndarray[Any, Any]
    sources: np.ndarray[Any, Any]
    targets: np.ndarray[Any, Any]


def tables_for(traffic: RankMessages) -> tuple[DmaTables, list[tuple[int, int]]]:
    """The tables of a schedule, and of every step how many rounds and messages a rank has."""
    ranks, steps, none = traffic.num_ranks, tables_of(traffic), traffic.most_slots
    wide = int(np.diff(traffic.start).max())
    counts = [(len(step.pairs), step.order.shape[2]) for step in steps]
    num_rounds, num_messages = (sum(column) for column in zip(*counts, strict=True))
    to = np.full((ranks, num_rounds), -1, dtype=np.int32)
    sends = np.full((ranks, num_rounds, wide), none, dtype=np.int32)
    comes = np.full((ranks, num_messages), -1, dtype=np.int32)
    adds, copies = np.full((2, ranks, num_messages, wide), none + 1, dtype=np.int32)
    first = message = 0
    for step, (rounds, messages) in zip(steps, counts, strict=True):
        part = slice(message, message + messages)
        for table, own in ((adds, step.adds), (copies, step.copies)):
            if own is not None:
                table[:, part, : own.shape[3]] = own[:, 0]
        is_there = (np.minimum(adds, copies)[:, part] <= none).any(axis=2)
        comes[:, part] = np.where(is_there, first + step.order[:, 0], -1)
        for at, (pairs, source) in enumerate(zip(step.pairs, step.source, strict=True), first):
            sends[:, at, : source.shape[2]] = source[:, 0]
            for sender, target in pairs:
                to[sender, at] = target
        first, message = first + rounds, message + messages
    used = sorted(set(zip(traffic.source.tolist(), traffic.target.tolist(), strict=True)))
    senders = [[source for source, target in used if target == rank] for rank in range(ranks)]
    sources = np.full((ranks, max(map(len, senders))), -1, dtype=np.int32)
    for rank, known in enumerate(senders):
        sources[rank, : len(known)] = known
    targets = np.bincount([source for source, _ in used], minlength=ranks).astype(np.int32)
    return DmaTables(to, sends, comes, adds, copies, sources, targets[:, None]), counts


def kernel_of(counts: list[tuple[int, int]], wide: int) -> Any:
    """The kernel of every rank: steps in turn, in each first what goes, then what comes."""
    import jax
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def kernel(*refs: Any) -> None:
        to, sends, comes, adds, copies, sources, targets, given, held, out, rooms, gone, came = refs
        met = pltpu.get_barrier_semaphore()

        def dma(at: Any, target: Any) -> Any:
            ends = (out.at[at], rooms.at[at], gone.at[at], came.at[at])
            return pltpu.make_async_remote_copy(*ends, device_id=(target,))

        def ready(place: int) -> None:
            pl.semaphore_signal(met, 1, device_id=(sources[place],))

        def send(at: int) -> None:
            for row in range(wide):
                out[at, row] = held[sends[at, row]]
            dma(at, to[at]).start()

        def receive(place: int) -> None:
            dma(comes[place], 0).wait_recv()
            for row in range(wide):
                content = rooms[comes[place], row]
                held[adds[place, row]] += content
                held[copies[place, row]] = content

        def sent(at: int) -> None:
            dma(at, to[at]).wait_send()

        held[...] = given[...]
        for place in range(sources.shape[0]):
            pl.when(sources[place] >= 0)(partial(ready, place))
        pl.semaphore_wait(met, targets[0])
        first = message = 0
        for rounds, messages in counts:
            for at in range(first, first + rounds):
                pl.when(to[at] >= 0)(partial(send, at))
            for place in range(message, message + messages):
                pl.when(comes[place] >= 0)(partial(receive, place))
            for at in range(first, first + rounds):
                pl.when(to[at] >= 0)(partial(sent, at))
            first, message = first + rounds, message + messages

    def called(tables: Any, buffer: Any) -> Any:
        total = sum(rounds for rounds, _ in counts)
        scalars, vectors = (
            pl.BlockSpec(memory_space=pltpu.SMEM),
            pl.BlockSpec(memory_space=pltpu.VMEM),
        )
        room = pltpu.VMEM((total, wide, buffer.shape[1]), buffer.dtype)
        return pl.pallas_call(
            kernel,
            out_shape=jax.ShapeDtypeStruct(buffer.shape, buffer.dtype),
            in_specs=[*(scalars for _ in tables), vectors],
            out_specs=vectors,
            scratch_shapes=[room, room, *(pltpu.SemaphoreType.DMA((total,)) for _ in range(2))],
            compiler_params=pltpu.CompilerParams(collective_id=0),
            interpret=pltpu.InterpretParams(detect_races=True),
        )(*tables, buffer)

    return called


def by_dma(traffic: RankMessages, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The outputs of all ranks, given their inputs: (ranks, chunks, elements) in both."""
    import jax

    import ocs_codesign.jax

    tables, counts = tables_for(traffic)
    ranks, none = traffic.num_ranks, traffic.most_slots
    buffer = np.zeros((ranks, none + 2, rows.shape[2]), dtype=rows.dtype)
    wanted = np.zeros((ranks, len(traffic.wanted(0))), dtype=np.int64)
    for rank in range(ranks):
        slots = traffic.slots_of(rank)
        buffer[rank, np.searchsorted(slots, traffic.given(rank))] = rows[rank]
        wanted[rank] = np.searchsorted(slots, traffic.wanted(rank))
    call = kernel_of(counts, tables.sends.shape[2])
    spec = jax.sharding.PartitionSpec("x")
    spread = jax.shard_map(
        lambda tables, own: call([each[0] for each in tables], own[0])[None],
        mesh=ocs_codesign.jax.mesh(ranks, "x", jax.devices()[:ranks]),
        in_specs=(spec, spec),
        out_specs=spec,
        check_vma=False,
    )
    held = np.asarray(jax.jit(spread)(tuple(tables), buffer))
    return np.take_along_axis(held, wanted[:, :, None], axis=1)


def by_lax(collective: str, plan: Schedule, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same by the collectives of ``ocs_codesign.jax``."""
    import jax

    import ocs_codesign.jax

    plans = ocs_codesign.jax.collective(plan)
    method = plans.all_gather if collective == "allgather" else plans.psum_scatter
    spec, flat = jax.sharding.PartitionSpec("x"), rows.reshape(len(rows), -1)
    spread = jax.shard_map(
        lambda row: method(row[0], "x")[None],
        mesh=ocs_codesign.jax.mesh(len(rows), "x", jax.devices()[: len(rows)]),
        in_specs=spec,
        out_specs=spec,
    )
    done = np.asarray(jax.jit(spread)(flat))
    if set(plans.counts) != {(collective, "schedule")}:
        raise RuntimeError(f"{collective} did not go by its schedule")
    return done.reshape(len(rows), -1, rows.shape[2])


def by_numpy(traffic: RankMessages, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same, message after message, each of what was held before its step."""
    held = np.zeros((traffic.num_ranks, traffic.num_chunks, rows.shape[2]), dtype=rows.dtype)
    for rank, own in enumerate(rows):
        held[rank, traffic.given(rank)] = own
    for step in range(traffic.num_steps):
        before = held.copy()
        for row in np.flatnonzero(traffic.step == step):
            part = slice(traffic.start[row], traffic.start[row + 1])
            chunk, adds, target = traffic.chunk[part], traffic.adds[part], traffic.target[row]
            sent = before[traffic.source[row], chunk]
            held[target, chunk[adds]] += sent[adds]
            held[target, chunk[~adds]] = sent[~adds]
    return np.stack([held[rank, traffic.wanted(rank)] for rank in range(traffic.num_ranks)])


def drawn(traffic: RankMessages, dtype: str) -> np.ndarray[Any, Any]:
    """Inputs with full mantissas and mixed exponents, so that another order of sums shows."""
    draws = np.random.default_rng(SEED)
    shape = (traffic.num_ranks, len(traffic.given(0)), WIDTH)
    content = draws.standard_normal(shape) * 2.0 ** draws.integers(-8, 9, shape)
    return np.asarray((content * 1e3).astype(dtype))


def rows_of(topologies: Sequence[str], dtype: str = "float32") -> Iterator[dict[str, object]]:
    """A row for every schedule."""
    interpreter = import_module("jax._src.pallas.mosaic.interpret.interpret_pallas_call")
    for topology in topologies:
        for collective in COLLECTIVES:
            plan = scheduled(topology, collective)
            traffic = traffic_of(lower(plan))
            rows = drawn(traffic, dtype)
            done = by_dma(traffic, rows)
            others = (by_lax(collective, plan, rows), by_numpy(traffic, rows))
            equal = all(done.tobytes() == each.tobytes() for each in others)
            _, counts = tables_for(traffic)
            yield {
                "topology": topology,
                "collective": collective,
                "steps": traffic.num_steps,
                "messages": len(traffic.step),
                "rounds": sum(rounds for rounds, _ in counts),
                "races": interpreter.races.races_found,
                "bits": "equal" if equal else "differ",
                "sha256_16": sha256(done.tobytes()).hexdigest()[:16],
            }


def main() -> int:
    """Print the table; 1 if bits differ or memory races, 2 without JAX."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--topology", choices=TOPOLOGIES, action="append", help="only this one")
    given = parser.parse_args()
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        import ocs_codesign.jax  # noqa: F401
    except ImportError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 2
    failed = False
    table = csv.DictWriter(sys.stdout, FIELDS, lineterminator="\n")
    table.writeheader()
    for row in rows_of(given.topology or TOPOLOGIES):
        table.writerow(row)
        failed |= bool(row["races"]) or row["bits"] != "equal"
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
