"""A design that was built and saved, as an answer."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.faces.answers.compare import raced_sections
from ocs_codesign.faces.answers.declared import made, records, table
from ocs_codesign.faces.answers.plan import Changing, changes_sections, circuits_facts
from ocs_codesign.faces.answers.sections import Facts, Table, counted
from ocs_codesign.faces.answers.texts import (
    MAX_FRACTION,
    cost_text,
    far_above_text,
    graph_bound_text,
    in_decimals,
    is_far_above,
    loads_table,
    model_text,
    t_b_text,
    told_late,
)
from ocs_codesign.schedules.design import is_late
from ocs_codesign.schedules.paths.tables import dependency_cycle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.cost import Cost, MessageSizes
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.faces.answers.cost import Subject
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.schedules.compare.comparison import Comparison
    from ocs_codesign.schedules.design import Design
    from ocs_codesign.schedules.files.designs import DesignVerdict, LoadedDesign
    from ocs_codesign.schedules.forest.choice import Choice, Contender, Contenders
    from ocs_codesign.schedules.paths.certificates import PathTable
    from ocs_codesign.schedules.paths.channels import Channelled
    from ocs_codesign.schedules.registry import Made
    from ocs_codesign.verification.sends import Witness


# What a message could take: forests in parts, BFB and others, as an answer.


def _chunk_bytes(contender: Contender, choice: Choice) -> float | None:
    pipeline = contender.pipeline
    if pipeline is None:
        return None
    return float(pipeline.chunk_bytes(choice.message_bytes, contender.num_parts))


made(
    "contender",
    time_s=lambda contender, choice: float(choice.time_s(contender.cost)),
    height=lambda contender: contender.pipeline and contender.height,
    parts=lambda contender: contender.pipeline and contender.num_parts,
    chunk_bytes=_chunk_bytes,
)
made(
    "choice",
    least_time=lambda choice: {
        **records()["cost"].json(choice.least),
        "time_s": float(choice.least_s),
    },
    over_bound=lambda choice: over_bound(choice, choice.best),
    over_full_pipeline=lambda choice: float(choice.time_s(choice.best.cost)) / choice.pipelined_s,
)


def over_bound(choice: Choice, one: Contender) -> float:
    """How many times what nothing beats a contender takes."""
    return float(choice.time_s(one.cost) / choice.least_s)


def choices_sections(collectives: Sequence[str], choices: Sequence[Choice]) -> Iterator[Section]:
    """The contenders for a message, a table a collective, and how good the best is."""
    for collective, choice in zip(collectives, choices, strict=True):
        yield ""
        size = format_size(float(choice.message_bytes))
        yield f"{model_text(f'{size}, {collective}', choice.model)}:"
        yield table(
            choice.contenders,
            "time:time; over bound:.3f; steps=cost.steps; t_b=cost.t_b:.6g; "
            "trees=pipeline.trees_a_unit; height; parts; chunk:size | schedule=maker",
            choice,
            time=lambda contender, choice: choice.time_s(contender.cost),
            over_bound=lambda contender, choice: over_bound(choice, contender),
            height=lambda contender: contender.pipeline and contender.height,
            parts=lambda contender: contender.pipeline and contender.num_parts,
            chunk=_chunk_bytes,
        )
        least = format_time(float(choice.least_s))
        steps = "Nothing" if choice.overlaps else "In whole steps nothing"
        joint = "or" if choice.overlaps else "and"
        yield (
            f"{steps} takes less than {least}: {counted(choice.least.steps, 'step')} {joint} the "
            f"bytes at t_b {float(choice.least.t_b):.6g}. {_pipeline_text(choice)}"
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


made(
    "half",
    collective=lambda pair: pair[0].name,
    bound=lambda pair: pair[1].least,
    attained=lambda pair: pair[1].optimum.is_attained,
    messages=lambda pair, costs: costs.choices(pair[1]),
    schedules=lambda pair: _rows(pair[1]),
)
made(
    "forest_cost",
    schedule=lambda row: row[0].maker,
    cost=lambda row: row[0].cost,
    trees=lambda row: row[0].pipeline and row[0].pipeline.trees_a_unit,
    least_t_b=lambda row: row[1],
)
made("build.forest_costs", halves=lambda costs: zip(costs.halves, costs.fields, strict=True))


def _rows(field: Contenders) -> Iterator[tuple[Contender, Fraction]]:
    """Every schedule, forests in one part, with its t_b in the limit of many parts."""
    for one in (*field.others, *field.forests()):
        limit = one.cost.t_b if one.pipeline is None else one.pipeline.steady_state_t_b
        yield one, limit


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
        least = format_time(float(choice.least_s))
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


made(
    "build.built",
    late=lambda record, *_: is_late(record["recipe"] or "", record["schedule"]),
    t_b_bound=lambda _, made: None if made.exact is not None else made.bound,
    choices=lambda _, made: made.choices or None,
    forest=lambda _, made: (
        None if made.height is None else {"height": made.height, "loss": str(made.loss)}
    ),
)


def built_sections(
    record: dict[str, Any],
    made: Made,
    least: Cost | None,
    directory: str,
    compared: Comparison | None,
    *,
    design: Design,
    forest: Cost | None,
) -> Iterator[Section]:
    """What was built.

    ``made`` says of its t_b what no schedule under the same limits can beat, ``least`` is what none
    on the same graph can, ``forest`` what one costs there, None where it is not known.
    """
    bound = made.bound
    maker, _, proof = record["schedule"].partition(", ")
    yield Facts(
        ("recipe", record["recipe"]),
        ("graph", record["graph"]),
        ("nodes, degree", f"{record['nodes']}, {record['degree']}"),
        ("collective", record["collective"]),
        ("cost", f"{cost_text(design.cost)}, verified"),
        ("bound", None if proof or bound is None else _bound_text(design.cost.t_b, bound)),
        ("bound of this graph", least and graph_bound_text(design.cost, least, design.collective)),
        ("proof", proof or None),
        ("trees", None if made.height is None else _trees_text(made.height, made.loss)),
        ("schedule", f"{told_late(maker, design)}, {record['num_sends']:,} sends"),
        ("chunks a shard", record["num_chunks"]),
        ("saved in", directory),
    )
    is_best = proof or maker.startswith("forest") or made.choices
    if least is not None and not is_best and is_far_above(design.cost, least):
        yield ""
        yield far_above_text(design.cost, least, forest)
    halves = [half.name for half in design.collective.halves()]
    if len(made.choices) < len(halves):
        halves = [design.collective.name] * len(made.choices)
    yield from choices_sections(halves, made.choices)
    if compared is not None:
        yield from raced_sections(compared)


def _trees_text(height: int, loss: Fraction | None) -> str:
    """How tall the trees of a forest are, and what that costs."""
    rate = f"{float(100 * loss):.3g} % above the bound ({loss})" if loss else "the optimum"
    return f"at most {counted(height, 'hop')} high, in very many parts {rate}"


def _bound_text(t_b: Fraction, least: Fraction) -> str:
    """How far a schedule may be above the best of as many steps."""
    if t_b == least:
        return "no schedule of as many steps is better"
    return f"{float(least):.6g}, at most {float(t_b / least - 1):.1g} below"


# A verified design as an answer: its cost, what is claimed, and the first thing that is wrong.


_PLACES = ("row", "step", "link", "root", "chunk", "node", "plane")


made(
    "build.verify",
    ok=lambda _, found: found.witness is None,
    degree=lambda loaded: _degree(loaded),
    multicast=lambda loaded: sorted(loaded.abilities.multicast) or None,
    aggregate=lambda loaded: sorted(loaded.abilities.aggregate) or None,
    programmed=lambda loaded, found: (
        None
        if loaded.circuits is None or found.changing is None
        else Changing(loaded.circuits, found.changing)
    ),
)
made(
    "programmed",
    recipes=lambda _, loaded: () if loaded.program is None else loaded.program.recipes,
    recipe_of_step=lambda _, loaded: (
        () if loaded.program is None else loaded.program.recipe_of_step
    ),
)


def verify_sections(loaded: LoadedDesign, found: DesignVerdict) -> Iterator[Section]:
    """The same where people read it: the witness, or all that was replayed."""
    schedule, changing, circuits = loaded.schedule, found.changing, loaded.circuits
    if found.witness is not None:
        witness = records()["witness"].json(found.witness, loaded)
        yield f"Not valid: {_witness_text(witness)}."
        return
    changes: list[tuple[str, object]] = []
    if changing is None or circuits is None:
        yield "Valid: every send was replayed."
    else:
        yield "Valid: every send was replayed over circuits that are up."
        changes = circuits_facts(circuits, changing)
    recipes = () if loaded.program is None else loaded.program.recipes
    ports = "degree" if circuits is None else "planes"
    yield Facts(
        ("recipe", loaded.recipe),
        ("recipes", ", ".join(recipes) or None),
        (f"nodes, {ports}", f"{schedule.topology.num_nodes}, {_degree(loaded)}"),
        ("collective", schedule.collective.text),
        ("cost", cost_text(found.verdict.cost)),
        ("claimed", None if loaded.claimed is None else "the same"),
        *changes,
        ("multicast in switches", len(loaded.abilities.multicast) or None),
        ("aggregate in switches", len(loaded.abilities.aggregate) or None),
        ("sends", f"{schedule.num_sends:,}"),
        ("chunks a shard", schedule.num_chunks),
    )
    yield ""
    unit = "pieces" if schedule.collective.name == "alltoall" else "shards"
    yield loads_table(found.verdict.max_loads, unit)
    if changing is not None:
        yield from changes_sections(changing.changes)


def _degree(loaded: LoadedDesign) -> int:
    circuits = loaded.circuits
    return loaded.schedule.topology.degree if circuits is None else circuits.num_planes


made(
    "witness",
    tail=lambda witness, loaded: _end(witness, loaded.schedule.topology.tail),
    head=lambda witness, loaded: _end(witness, loaded.schedule.topology.head),
)


def _end(witness: Witness, nodes: Any) -> int | None:
    return None if witness.link is None else nodes[witness.link]


def _witness_text(witness: dict[str, Any]) -> str:
    """The witness in words: ``row 3, step 2, link 5 (0 -> 1), root 0, chunk 2: the rule``."""
    places = []
    for key in _PLACES:
        if witness.get(key) is not None:
            ends = f" ({witness['tail']} -> {witness['head']})" if key == "link" else ""
            places.append(f"{key} {witness[key]}{ends}")
    return f"{', '.join(places)}{': ' if places else ''}{witness['rule']}"


# Path tables as answers: the exact all-to-all time over their paths, its bounds, and deadlock.


KINDS = {
    "optimal": "an optimal flow over short paths",
    "disjoint": "disjoint short paths",
    "deadlock-free": "disjoint up*/down* paths",
}
_SHOWN_LINKS = 8


def _link(topology: Topology, link: int) -> dict[str, int]:
    return {"link": link, "tail": int(topology.tail[link]), "head": int(topology.head[link])}


def _most_paths(table: PathTable) -> int:
    pair = table.source * table.topology.num_nodes + table.node
    return int(np.unique(pair, return_counts=True)[1].max())


def _cycle(table: PathTable) -> list[dict[str, int]] | None:
    cycle = dependency_cycle(table)
    return None if cycle is None else [_link(table.topology, link) for link in cycle]


def _channels(channelled: Channelled | None) -> dict[str, Any] | None:
    """How many there are and at least must be, and the hops in each."""
    if channelled is None:
        return None
    num, channel = channelled.num_channels, channelled.table.channel
    hops = np.bincount([] if channel is None else channel, minlength=num)
    return {"num_channels": num, "least": channelled.least, "num_hops": hops.tolist()}


made(
    "build.paths",
    most_paths_of_a_pair=_most_paths,
    gap=lambda table: float(table.time / table.bound - 1),
    optimal=lambda table: table.time == table.bound,
    over_any_routing=lambda table, _, best: float(table.time / best.bound),
    busiest_link=lambda table: {
        **_link(table.topology, table.busiest_link()),
        "load": str(table.worst_load),
    },
    shortest_path=lambda table: table.hops().min(),
    longest_path=lambda table: table.hops().max(),
    deadlock_free=lambda table, _, __, channelled: (
        channelled is not None or dependency_cycle(table) is None
    ),
    virtual_channels=lambda _, __, ___, channelled: _channels(channelled),
    cycle=_cycle,
)


def paths_sections(answer: dict[str, Any]) -> Iterator[Section]:
    """The same, with what it is of and written to, where people read it."""
    busiest, parts = answer["busiest_link"], answer["num_parts"]
    gap = "proven the best shares" if answer["optimal"] else f"gap {answer['gap']:.2g}"
    yield Facts(
        ("recipe", answer["recipe"]),
        ("label", answer["label"]),
        ("graph", answer["graph"]),
        ("nodes, degree", f"{answer['nodes']}, {answer['degree']}"),
        ("routing", KINDS[answer["routing"]]),
        ("paths", f"{answer['num_paths']:,}, at most {answer['most_paths_of_a_pair']} of a pair"),
        ("shares", "all of a message" if parts == 1 else f"multiples of 1/{parts}"),
        ("hops", f"{answer['shortest_path']} to {answer['longest_path']}"),
        ("t_b", f"{_decimal(answer['t_b'])}, {gap}"),
        ("bound", f"{_decimal(answer['proven_bound'])} (no shares of such paths can beat it)"),
        ("any routing", _over(answer)),
        ("busiest link", f"{_link_text(busiest)}: {busiest['load']} messages"),
        ("deadlock", _deadlock(answer["cycle"], answer["virtual_channels"])),
        ("written to", answer["out"]),
    )


def _over(answer: dict[str, Any]) -> str:
    """What these paths cost against routing without rules."""
    most = "" if answer["any_routing_t_b"] == answer["any_routing_bound"] else "at most "
    return (
        f"{_decimal(answer['any_routing_bound'])} at least; "
        f"these paths take {most}{answer['over_any_routing']:.4f} times as long"
    )


def _decimal(t_b: str) -> str:
    """A fraction with its decimal, or that alone if the fraction is too long to read."""
    value = Fraction(t_b)
    return t_b_text(value) if len(t_b) <= MAX_FRACTION else in_decimals(value)


def _deadlock(cycle: list[dict[str, int]] | None, channels: dict[str, Any] | None) -> str:
    """Whether links may wait for each other in a ring, and which."""
    if cycle is None:
        return "none: the channel dependencies have no cycle"
    if channels is not None:
        num, least = channels["num_channels"], channels["least"]
        proof = "fewer do not do" if num == least else f"at least {least} are needed"
        return f"none on {num} virtual channels: {proof}"
    shown = ", ".join(_link_text(link) for link in cycle[:_SHOWN_LINKS])
    more = f" and {len(cycle) - _SHOWN_LINKS} more" if len(cycle) > _SHOWN_LINKS else ""
    return f"possible: a cycle of {len(cycle)} channel dependencies, links {shown}{more}"


def _link_text(link: dict[str, Any]) -> str:
    return f"{link['link']} ({link['tail']} -> {link['head']})"
