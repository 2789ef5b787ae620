"""A design that was built and saved, as an answer."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.faces.answers.cost import proof_json
from ocs_codesign.faces.answers.plan import changes_sections, circuits_facts, circuits_json
from ocs_codesign.faces.answers.sections import Facts, Table, counted
from ocs_codesign.faces.answers.texts import (
    MAX_FRACTION,
    cost_json,
    cost_text,
    far_above_text,
    graph_bound_text,
    in_decimals,
    is_far_above,
    loads_table,
    model_text,
    t_b_text,
)
from ocs_codesign.schedules.paths.tables import dependency_cycle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.core.collective import Collective
    from ocs_codesign.core.cost import Cost, MessageSizes
    from ocs_codesign.core.network import Network
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.faces.answers.cost import Subject
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.schedules.design import Design
    from ocs_codesign.schedules.files.designs import DesignVerdict, LoadedDesign
    from ocs_codesign.schedules.forest.choice import Choice, Contender, Contenders
    from ocs_codesign.schedules.paths.certificates import PathTable, Throughput
    from ocs_codesign.schedules.paths.channels import Channelled
    from ocs_codesign.schedules.registry import Made
    from ocs_codesign.verification.sends import Witness


# What a message could take: forests in parts, BFB and others, as an answer.


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


def built_json(
    record: dict[str, Any], made: Made | None, least: Cost | None, directory: str
) -> dict[str, Any]:
    """The record of the design, what is proven of it and of its graph, and where it is."""
    proof: dict[str, Any] = {} if least is None else {"topology_bound": cost_json(least)}
    if made is not None and made.exact is not None:
        proof |= proof_json(made.exact)
    elif made is not None and made.bound is not None:
        proof["t_b_bound"] = str(made.bound)
    if made is not None and made.choices:
        proof["choices"] = [choice_json(choice) for choice in made.choices]
    if made is not None and made.height is not None:
        proof["forest"] = {"height": made.height, "loss": str(made.loss)}
    return {**record, **proof, "out": directory}


def built_sections(
    answer: dict[str, Any], design: Design, made: Made, least: Cost | None, forest: Cost | None
) -> Iterator[Section]:
    """What was built.

    ``made`` says of its t_b what no schedule under the same limits can beat, ``least`` is what none
    on the same graph can, ``forest`` what one costs there, None where it is not known.
    """
    bound = made.bound
    maker, _, proof = answer["schedule"].partition(", ")
    yield Facts(
        ("recipe", answer["recipe"]),
        ("graph", answer["graph"]),
        ("nodes, degree", f"{answer['nodes']}, {answer['degree']}"),
        ("collective", answer["collective"]),
        ("cost", f"{cost_text(design.cost)}, verified"),
        ("bound", None if proof or bound is None else _bound_text(design.cost.t_b, bound)),
        ("bound of this graph", least and graph_bound_text(design.cost, least, design.collective)),
        ("proof", proof or None),
        ("trees", None if made.height is None else _trees_text(made.height, made.loss)),
        ("schedule", f"{maker}, {answer['num_sends']:,} sends"),
        ("chunks a shard", answer["num_chunks"]),
        ("saved in", answer["out"]),
    )
    compared = proof or maker.startswith("forest") or "choices" in answer
    if least is not None and not compared and is_far_above(design.cost, least):
        yield ""
        yield far_above_text(design.cost, least, forest)


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


def verify_json(loaded: LoadedDesign, found: DesignVerdict) -> dict[str, Any]:
    """What a replay found of a loaded design."""
    schedule, cost = loaded.schedule, found.verdict.cost
    return {
        "ok": found.witness is None,
        "recipe": loaded.recipe,
        "nodes": schedule.topology.num_nodes,
        "degree": _degree(loaded),
        "collective": schedule.collective.name,
        **cost_json(cost),
        "t_b_float": float(cost.t_b),
        "max_load_per_step": [str(load) for load in found.verdict.max_loads],
        "num_chunks": schedule.num_chunks,
        "num_sends": schedule.num_sends,
        **{name: switches for name, switches in _able(loaded) if switches},
        "claimed": None if loaded.claimed is None else cost_json(loaded.claimed),
        **_program_json(loaded, found),
        "witness": None if found.witness is None else _witness_json(loaded, found.witness),
    }


def verify_sections(loaded: LoadedDesign, found: DesignVerdict) -> Iterator[Section]:
    """The same where people read it: the witness, or all that was replayed."""
    schedule, changing, circuits = loaded.schedule, found.changing, loaded.circuits
    if found.witness is not None:
        yield f"Not valid: {_witness_text(_witness_json(loaded, found.witness))}."
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
        *((f"{name} in switches", len(each) or None) for name, each in _able(loaded)),
        ("sends", f"{schedule.num_sends:,}"),
        ("chunks a shard", schedule.num_chunks),
    )
    yield ""
    unit = "pieces" if schedule.collective.name == "alltoall" else "shards"
    yield loads_table(found.verdict.max_loads, unit)
    if changing is not None:
        yield from changes_sections(changing.changes)


def _able(loaded: LoadedDesign) -> list[tuple[str, list[int]]]:
    """The switches that must be able to copy what they get, and those that must add it up."""
    able = loaded.abilities
    return [("multicast", sorted(able.multicast)), ("aggregate", sorted(able.aggregate))]


def _degree(loaded: LoadedDesign) -> int:
    circuits = loaded.circuits
    return loaded.schedule.topology.degree if circuits is None else circuits.num_planes


def _program_json(loaded: LoadedDesign, found: DesignVerdict) -> dict[str, Any]:
    """Fields about circuits, none if they do not change."""
    if loaded.circuits is None or found.changing is None:
        return {}
    claims = loaded.program
    return {
        "recipes": [] if claims is None else list(claims.recipes),
        "recipe_of_step": [] if claims is None else list(claims.recipe_of_step),
        **circuits_json(loaded.circuits, found.changing),
    }


def _witness_json(loaded: LoadedDesign, witness: Witness) -> dict[str, Any]:
    topology, link = loaded.schedule.topology, witness.link
    plane = {} if loaded.circuits is None else {"plane": witness.plane}
    return {
        "rule": witness.rule,
        "row": witness.row,
        "step": witness.step,
        "link": link,
        "tail": None if link is None else int(topology.tail[link]),
        "head": None if link is None else int(topology.head[link]),
        "root": witness.root,
        "chunk": witness.chunk,
        "node": witness.node,
        **plane,
    }


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


def paths_json(
    kind: str, table: PathTable, best: Throughput, channelled: Channelled | None = None
) -> dict[str, Any]:
    """A table of a kind of KINDS beside the best routing without rules.

    ``cycle`` is of links without channels; with those of ``channelled`` there is no deadlock.
    """
    topology, cycle = table.topology, dependency_cycle(table)
    hops, time = table.hops(), table.time
    pair = table.source * topology.num_nodes + table.node
    busiest = _link_json(topology, table.busiest_link())
    return {
        "nodes": topology.num_nodes,
        "degree": topology.degree,
        "routing": kind,
        "num_paths": table.num_paths,
        "most_paths_of_a_pair": int(np.unique(pair, return_counts=True)[1].max()),
        "num_parts": table.num_parts,
        "t_b": str(time),
        "t_b_float": float(time),
        "proven_bound": str(table.bound),
        "gap": float(time / table.bound - 1),
        "optimal": time == table.bound,
        "any_routing_t_b": str(best.time),
        "any_routing_bound": str(best.bound),
        "over_any_routing": float(time / best.bound),
        "busiest_link": {**busiest, "load": str(table.worst_load)},
        "shortest_path": int(hops.min()),
        "longest_path": int(hops.max()),
        "deadlock_free": cycle is None or channelled is not None,
        "virtual_channels": None if channelled is None else _channels_json(channelled),
        "cycle": None if cycle is None else [_link_json(topology, link) for link in cycle],
    }


def _channels_json(channelled: Channelled) -> dict[str, Any]:
    """How many there are and at least must be, and the hops in each."""
    num, channel = channelled.num_channels, channelled.table.channel
    hops = np.bincount([] if channel is None else channel, minlength=num)
    return {"num_channels": num, "least": channelled.least, "num_hops": hops.tolist()}


def _link_json(topology: Topology, link: int) -> dict[str, int]:
    return {"link": link, "tail": int(topology.tail[link]), "head": int(topology.head[link])}


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
