"""What a classic algorithm costs on a topology, as an answer."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.answers.sections import Facts, Table
from ocs_codesign.answers.texts import cost_json, cost_text, t_b_text
from ocs_codesign.cost import Cost, total

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.cost import Subject
    from ocs_codesign.answers.sections import Section
    from ocs_codesign.messages import Messages
    from ocs_codesign.schedulers.classic.placement import Placed


@final
@dataclass(frozen=True, slots=True)
class ClassicCost:
    """A classic algorithm by name, what it sends, and what that costs under a routing.

    ``in_network`` is the bound of an allreduce that switches add up, where there are any; ``note``
    is the remark of who asked.
    """

    scheduler: str
    routing: str
    messages: Messages
    placed: Placed
    in_network: Cost | None = None
    note: str | None = None

    @property
    def one_port_t_b(self) -> Fraction:
        """t_b on a switch, where every host has one port of B in and out."""
        return total(self.messages.one_port_loads()) / self.messages.num_ranks


def classic_json(subject: Subject, found: ClassicCost) -> dict[str, Any]:
    """The JSON form: loads are in shards (in an all-to-all in pieces), t_b in M/B."""
    placed = found.placed
    return {
        **subject.json(found.messages.collective.name),
        "scheduler": found.scheduler,
        "routing": found.routing,
        "steps": len(placed.loads),
        "max_load_per_step": [str(load) for load in placed.loads],
        "hops_per_step": list(placed.hops),
        "t_b": str(placed.t_b),
        "t_b_float": float(placed.t_b),
        "t_b_store_and_forward": str(placed.t_b_store_and_forward),
        "one_port_t_b": str(found.one_port_t_b),
        "in_network_bound": None if found.in_network is None else cost_json(found.in_network),
        "note": found.note,
    }


def classic_sections(subject: Subject, found: ClassicCost) -> Iterator[Section]:
    """The cost in every way of counting it, and the loads of every step."""
    placed = found.placed
    separate = f"{cost_text(placed.store_and_forward)}, a hop a step"
    added = found.in_network and f"{cost_text(found.in_network)} or more, a hop a step"
    switched = Cost(len(placed.loads), found.one_port_t_b)
    yield Facts(
        *subject.facts(found.messages.collective.text),
        ("scheduler", found.scheduler),
        ("routing", f"{found.routing}, shortest paths"),
        ("cost", f"{cost_text(placed.cut_through)}, a path a step"),
        ("store and forward", separate),
        ("on a switch", f"{cost_text(switched)}, one port a host"),
        ("sums in switches", added),
        ("note", found.note),
    )
    rows = zip(placed.loads, placed.hops, strict=True)
    table = [(str(step), t_b_text(load), str(hops)) for step, (load, hops) in enumerate(rows, 1)]
    if placed.t_b > found.one_port_t_b:
        times = float(placed.t_b / found.one_port_t_b)
        yield ""
        yield f"t_b is {times:.3g} times that on a switch: paths share links, or ports are idle."
    yield ""
    yield Table(("step", "largest load", "hops"), table, 3).shortened("steps")
