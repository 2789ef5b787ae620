"""A simulated collective as an answer: its time, what decides it, and what its links waited for."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.answers.sections import Facts, Table
from ocs_codesign.quantities import format_size, format_time
from ocs_codesign.simulate.reasons import IDLE_REASONS, PARTS, critical_path, idle_ticks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.collective import Collective
    from ocs_codesign.simulate.reasons import Stretch
    from ocs_codesign.simulate.simulated import Simulated

NS = 10**9
_SHOWN_LINKS = 8


@final
@dataclass(frozen=True, slots=True)
class Simulation:
    """What was simulated, and what it is compared with.

    ``formula_s`` is alpha for every step and t_b for M, ``bound_s`` what the bytes take at least on
    these links, None where it is not known. ``mode`` says in words what the simulation goes by.
    """

    name: str
    collective: Collective
    num_ranks: int
    message_bytes: Fraction
    mode: str
    simulated: Simulated
    formula_s: Fraction
    bound_s: Fraction | None

    @property
    def bus_bandwidth_Bps(self) -> Fraction | None:  # noqa: N802 - the unit keeps its case
        """What nccl-tests call busbw: M over the time, times what a rank must send of M at least.

        None if nothing takes time, or for a collective that they do not know.
        """
        ranks, time_s = self.num_ranks, self.simulated.total_s
        once = Fraction(ranks - 1, ranks)
        share = {
            **dict.fromkeys(("allgather", "reduce-scatter", "alltoall", "scatter", "gather"), once),
            **dict.fromkeys(("broadcast", "reduce"), Fraction(1)),
            "allreduce": 2 * once,
        }.get(self.collective.name)
        return None if share is None or not time_s else share * self.message_bytes / time_s

    def ns(self, ticks: int) -> Fraction | int:
        """Ticks in nanoseconds, a whole number where it is one."""
        exact = ticks * self.simulated.transfers.network.tick_s * NS
        return int(exact) if exact.denominator == 1 else exact


def simulation_json(answer: Simulation) -> dict[str, Any]:
    """The JSON form: the time, the comparison, the critical path, and every link."""
    done, network = answer.simulated, answer.simulated.transfers.network
    path = critical_path(done)
    busy, idle = done.link_busy().tolist(), idle_ticks(done).tolist()
    links = [
        {
            "link": link,
            "tail": int(network.tail[link]),
            "head": int(network.head[link]),
            "busy_ns": answer.ns(busy[link]),
            "idle_ns": {
                why: answer.ns(ticks) for why, ticks in zip(IDLE_REASONS, idle[link], strict=True)
            },
        }
        for link in range(network.num_links)
    ]
    return {
        "design": answer.name,
        "collective": answer.collective.name,
        "num_ranks": answer.num_ranks,
        "message_bytes": answer.message_bytes,
        "mode": answer.mode,
        "time_ns": answer.ns(done.total_ticks),
        "formula_ns": answer.formula_s * NS,
        "bound_ns": None if answer.bound_s is None else answer.bound_s * NS,
        "bus_bandwidth_Bps": answer.bus_bandwidth_Bps,
        "steps": done.transfers.num_steps,
        "num_transfers": done.transfers.num_transfers,
        "critical_ns": {part: answer.ns(ticks) for part, ticks in _parts(path).items()},
        "critical_path": [_stretch_json(answer, stretch) for stretch in path],
        "links": links,
    }


def _stretch_json(answer: Simulation, stretch: Stretch) -> dict[str, Any]:
    return {
        "part": stretch.part,
        "start_ns": answer.ns(stretch.start),
        "end_ns": answer.ns(stretch.end),
        "step": int(answer.simulated.transfers.step[stretch.transfer]),
        "transfer": stretch.transfer,
        "link": None if stretch.link < 0 else stretch.link,
    }


def _parts(path: tuple[Stretch, ...]) -> dict[str, int]:
    """Ticks of the critical path by part."""
    ticks = dict.fromkeys(PARTS, 0)
    for stretch in path:
        ticks[stretch.part] += stretch.end - stretch.start
    return ticks


def simulation_sections(answer: Simulation) -> Iterator[Section]:
    """The time against the formula and the bound, what decides it, and the busiest links."""
    done = answer.simulated
    time_s, bandwidth = done.total_s, answer.bus_bandwidth_Bps
    yield Facts(
        ("design", answer.name),
        ("collective", f"{answer.collective.text} of {answer.num_ranks} ranks"),
        ("message", format_size(answer.message_bytes)),
        ("simulated", answer.mode),
        ("time", f"{format_time(time_s)} ({float(time_s * NS):,.9g} ns)"),
        ("steps", f"{done.transfers.num_steps}, {done.transfers.num_transfers:,} transfers"),
        ("bus bandwidth", None if bandwidth is None else f"{float(bandwidth) / NS:.4g} GB/s"),
        ("by formula", _compared(answer.formula_s, time_s)),
        (
            "bound of the links",
            None if answer.bound_s is None else _compared(answer.bound_s, time_s),
        ),
        ("critical path", _path_text(answer)),
    )
    if done.total_ticks:
        yield ""
        yield _busiest(done)


def _compared(other_s: Fraction, time_s: Fraction) -> str:
    ratio = f", the simulation takes {float(time_s / other_s):.4f} of it" if other_s else ""
    return f"{format_time(other_s)}{ratio}"


def _path_text(answer: Simulation) -> str | None:
    ticks = _parts(critical_path(answer.simulated))
    total = answer.simulated.total_ticks
    found = [f"{part} {ticks[part] / total:.1%}" for part in PARTS if ticks[part]]
    return ", ".join(found) or None


def _busiest(done: Simulated) -> Table:
    """The links that send longest, and what they wait for otherwise."""
    network = done.transfers.network
    busy, idle = done.link_busy(), idle_ticks(done)
    why = [at for at in range(len(IDLE_REASONS)) if idle[:, at].any()]
    rows = []
    for link in np.argsort(-busy, kind="stable")[:_SHOWN_LINKS].tolist():
        ends = (network.name(int(end[link])) for end in (network.tail, network.head))
        parts = [busy[link], *idle[link, why]]
        shares = [f"{part / done.total_ticks:.1%}" for part in parts]
        rows.append((str(link), *shares, " to ".join(ends)))
    names = [f"waits: {IDLE_REASONS[at]}" if IDLE_REASONS[at] != "done" else "done" for at in why]
    return Table(("busiest link", "sends", *names, "from"), rows, numbers=2 + len(names))
