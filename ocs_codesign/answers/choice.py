"""What a message could take: forests in parts, BFB and others, as an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.answers.sections import Facts, Table, counted
from ocs_codesign.answers.texts import cost_json, cost_text, model_text, t_b_text
from ocs_codesign.quantities import format_bandwidth, format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from ocs_codesign.answers.cost import Subject
    from ocs_codesign.answers.sections import Section
    from ocs_codesign.collective import Collective
    from ocs_codesign.cost import MessageSizes
    from ocs_codesign.network import Network
    from ocs_codesign.schedulers.forest.choice import Choice, Contender, Contenders

_COLUMNS = ("time", "over bound", "steps", "t_b", "trees", "height", "parts", "chunk", "schedule")


def choice_json(choice: Choice) -> dict[str, Any]:
    """The JSON form of what was compared for a message, the best first."""
    contenders = [
        {
            "schedule": one.maker,
            **cost_json(one.cost),
            "t_b_float": float(one.cost.t_b),
            "time_s": float(choice.time_s(one.cost)),
            **_forest_json(choice, one),
        }
        for one in choice.contenders
    ]
    return {
        "message_bytes": float(choice.message_bytes),
        "alpha_s": float(choice.model.alpha_s),
        "node_bandwidth_Bps": float(choice.model.node_bandwidth_Bps),
        "contenders": contenders,
        "bound": {**cost_json(choice.least), "time_s": float(choice.time_s(choice.least))},
        "over_bound": over_bound(choice, choice.best),
        "full_pipeline_s": choice.pipelined_s,
        "over_full_pipeline": float(choice.time_s(choice.best.cost)) / choice.pipelined_s,
    }


def _forest_json(choice: Choice, one: Contender) -> dict[str, Any]:
    if one.pipeline is None:
        return {}
    return {
        "trees": one.pipeline.trees_a_unit,
        "height": one.height,
        "parts": one.num_parts,
        "chunk_bytes": float(one.pipeline.chunk_bytes(choice.message_bytes, one.num_parts)),
    }


def over_bound(choice: Choice, one: Contender) -> float:
    """How many times what nothing beats a contender takes."""
    return float(choice.time_s(one.cost) / choice.time_s(choice.least))


def choices_sections(collectives: Sequence[str], choices: Sequence[Choice]) -> Iterator[Section]:
    """The contenders for a message, a table a collective, and how good the best is."""
    for collective, choice in zip(collectives, choices, strict=True):
        yield ""
        size = format_size(float(choice.message_bytes))
        yield f"{model_text(f'{size}, {collective}', choice.model)}:"
        yield Table(_COLUMNS, [_row(choice, one) for one in choice.contenders], 8)
        least = format_time(float(choice.time_s(choice.least)))
        yield (
            f"Nothing takes less than {least}: {counted(choice.least.steps, 'step')} and the bytes "
            f"at t_b {float(choice.least.t_b):.6g}. {_pipeline_text(choice)}"
        )


def _pipeline_text(choice: Choice) -> str:
    """How the best compares to a pipeline of full steps through trees as high."""
    full = choice.pipelined_s
    ratio = float(choice.time_s(choice.best.cost)) / full - 1
    more = f"{abs(ratio):.1%} {'more' if ratio > 0 else 'less'}"
    return (
        f"The first takes {more} than (sqrt(T_B) + sqrt((H - 1) alpha))^2 = {format_time(full)}, "
        f"what full steps through trees of height H = {choice.best.height} take."
    )


def _row(choice: Choice, one: Contender) -> tuple[str, ...]:
    facts = _forest_json(choice, one)
    texts = [str(facts.get(name, "-")) for name in ("trees", "height", "parts")]
    if facts:
        texts.append(format_size(facts["chunk_bytes"]))
    return (
        format_time(float(choice.time_s(one.cost))),
        f"{over_bound(choice, one):.3f}",
        str(one.cost.steps),
        f"{float(one.cost.t_b):.6g}",
        *texts,
        *["-"] * (not facts),
        one.maker,
    )


@final
@dataclass(frozen=True, slots=True)
class ForestCosts:
    """What could carry a collective on a network: the halves of an allreduce, or all of another.

    ``fields`` are what competes for every half, ``asked`` the messages that they compete for.
    """

    subject: Subject
    network: Network
    halves: tuple[Collective, ...]
    fields: tuple[Contenders, ...]
    asked: MessageSizes | None

    @property
    def collective(self) -> str:
        """The name of the collective that they make."""
        return "allreduce" if len(self.halves) > 1 else self.halves[0].name

    def choices(self, field: Contenders) -> list[Choice]:
        """What is best for every message."""
        if self.asked is None:
            return []
        return [field.choice(self.asked.model, size) for size in self.asked.sizes_bytes]


def forest_costs_json(costs: ForestCosts) -> dict[str, Any]:
    """The JSON form: of every half what is known of trees and others, and the messages."""
    halves = [
        {
            "collective": half.name,
            "bound": cost_json(field.least),
            "attained": field.optimum.is_attained,
            "schedules": [_schedule_json(*row) for row in _rows(field)],
            "messages": [choice_json(choice) for choice in costs.choices(field)],
        }
        for half, field in zip(costs.halves, costs.fields, strict=True)
    ]
    hosts = costs.network.num_hosts
    return {**costs.subject.json(costs.collective), "hosts": hosts, "halves": halves}


def _rows(field: Contenders) -> Iterator[tuple[Contender, Fraction]]:
    """Every schedule, forests in one part, with its t_b in the limit of many parts."""
    for one in (*field.others, *field.forests()):
        limit = one.cost.t_b if one.pipeline is None else one.pipeline.steady_state_t_b
        yield one, limit


def _schedule_json(one: Contender, limit: Fraction) -> dict[str, Any]:
    trees = {} if one.pipeline is None else {"trees": one.pipeline.trees_a_unit}
    return {"schedule": one.maker, **cost_json(one.cost), **trees, "least_t_b": str(limit)}


def forest_costs_sections(costs: ForestCosts) -> Iterator[Section]:
    """The bound of every half, what there is to reach it, and what messages take."""
    switches = costs.network.num_nodes - costs.network.num_hosts
    facts = costs.subject.facts(costs.collective)
    yield Facts(*facts, ("hosts, switches", f"{costs.network.num_hosts}, {switches}"))
    for half, field in zip(costs.halves, costs.fields, strict=True):
        reach = (
            "trees reach the t_b" if field.optimum.is_attained else "switches would have to copy"
        )
        yield ""
        yield f"{half.name.capitalize()}: nothing beats {cost_text(field.least)}; {reach}."
        rows = []
        for number, (one, limit) in enumerate(_rows(field), 1):
            trees = "-" if one.pipeline is None else str(one.pipeline.trees_a_unit)
            numbers = (str(number), str(one.cost.steps), t_b_text(one.cost.t_b), t_b_text(limit))
            rows.append((*numbers, trees, one.maker))
        columns = ("row", "steps", "t_b", "t_b in many parts", "trees", "schedule")
        yield Table(columns, rows, numbers=5)
        yield from _messages(costs, field)


def _messages(costs: ForestCosts, field: Contenders) -> Iterator[Section]:
    """A row a message: the bound, the fastest, and the time and parts of every schedule."""
    if costs.asked is None:
        return
    order = [one for one, _ in _rows(field)]
    rows = []
    for size, choice in zip(costs.asked.sizes_bytes, costs.choices(field), strict=True):
        found = {id(one.pipeline or one): one for one in choice.contenders}
        mine = [found[id(one.pipeline or one)] for one in order]
        best = mine.index(choice.best) + 1
        least = format_time(float(choice.time_s(choice.least)))
        rows.append((format_size(size), least, str(best), *(_cell(choice, one) for one in mine)))
    model = costs.asked.model
    alpha, bandwidth = format_time(model.alpha_s), format_bandwidth(model.node_bandwidth_Bps)
    yield ""
    yield f"Times at alpha {alpha} and {bandwidth} a node, with the parts of forests:"
    numbers = [f"row {number}" for number in range(1, len(order) + 1)]
    yield Table(("message", "bound", "best", *numbers), rows, numbers=3 + len(order))


def _cell(choice: Choice, one: Contender) -> str:
    time = format_time(float(choice.time_s(one.cost)))
    return time if one.pipeline is None else f"{time} /{one.num_parts}"
