"""What ``select`` answers: the ranking, where the time goes, what is left out, what it means."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING

from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.fabric.profiles import cluster_of
from ocs_codesign.fabric.selection.ranking import PlanKind, fat_tree_time_s
from ocs_codesign.fabric.selection.steps import AllowedChanges
from ocs_codesign.faces.answers.declared import made, records, table
from ocs_codesign.faces.answers.networks import description
from ocs_codesign.faces.answers.sections import Facts, Recipes, Table, counted
from ocs_codesign.faces.answers.texts import among_sentence
from ocs_codesign.graphs.handle import handle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.fabric.description import Fabric, FabricFacts, SwitchProfile
    from ocs_codesign.fabric.profiles import PriceList
    from ocs_codesign.fabric.selection.ranking import RankedPlan, Selection
    from ocs_codesign.fabric.selection.steps import PartTime
    from ocs_codesign.faces.answers.sections import Section


MAX_BROKEN_DOWN = 3
MAX_EXCLUDED = 20
MAX_NAME = 64
"""Plans and designs left out that are shown; names of plans that a sentence can bear."""
_TIMES = ("alpha_s", "bandwidth_s", "reconfiguration_s")
_PARTS = {
    "bandwidth_s": "the time of the bytes",
    "alpha_s": "the time of the steps",
    "reconfiguration_s": "the wait for circuits",
}


made(
    "selection",
    ranked=lambda selection, *beside: selection.ranked[: beside[-1]],
    baselines=lambda selection: [
        {"rank": rank, **records()["plan"].json(plan, selection)}
        for rank, plan in selection.baselines
    ],
    fat_tree_bound_s=lambda selection: (
        selection.serving and float(fat_tree_time_s(selection.fabric, selection.workload))
    ),
    sentences=lambda selection: sentences(selection),
)
made(
    "part_time",
    name=lambda time, _, selection: selection.workload.jobs[time.part].name,
    phase=lambda time: time.phase or None,
    design=lambda time, plan: plan.options[time.option].name,
    forest_parts=lambda time: time.forest_parts or None,
)


def selection_sections(selection: Selection, top: int) -> Iterator[Section]:
    """The ranking, break-downs of the first plans, what was left out, and what it means."""
    workload, shown = selection.workload, selection.ranked[:top]
    yield Facts(
        *fabric_facts_of(selection),
        ("workload", f"{workload.name}: {counted(workload.trace.num_jobs, 'collective')}"),
        ("changes of circuits", workload.allowed.value),
        ("computation between", _time_text(workload.trace.compute_s)),
    )
    yield ""
    more = [(rank, plan) for rank, plan in selection.baselines if rank > len(shown)]
    yield _ranking(selection, [*enumerate(shown, 1), *more])
    if len(selection.ranked) > len(shown) + len(more):
        yield f"{len(selection.ranked) - len(shown) - len(more)} more: --top shows them."
    if selection.serving is not None:
        num_options = len({plan.name for plan in selection.ranked})
        yield among_sentence(num_options, selection.serving)
    for number, plan in enumerate(shown[:MAX_BROKEN_DOWN], 1):
        yield f"\n{number}. {plan.name}"
        yield _break_down(selection, plan)
    if selection.excluded:
        yield "\nLeft out:"
        left_out = selection.excluded[:MAX_EXCLUDED]
        rows = [(design.reason, design.sentence, design.name) for design in left_out]
        yield Table(("reason", "why", "design"), rows, texts=2)
        if len(selection.excluded) > MAX_EXCLUDED:
            yield f"{len(selection.excluded) - MAX_EXCLUDED} more: see --json."
    yield ""
    yield from sentences(selection)
    plans = [*shown, *(plan for _, plan in more)]
    yield Recipes.of(option.recipe for plan in plans for option in plan.options)


def fabric_facts_of(selection: Selection) -> tuple[tuple[str, object], ...]:
    """What the fabric is."""
    fabric = selection.fabric
    bandwidth = format_bandwidth(fabric.cost_model.node_bandwidth_Bps)
    hosts = f"{fabric.num_working_hosts} hosts, {fabric.num_planes} planes"
    steps = sorted({each.alpha_s for each in fabric.cost_model.protocols})
    alpha = " to ".join(dict.fromkeys(format_time(each) for each in (steps[0], steps[-1])))
    alpha += " by protocol" if len(steps) > 1 else ""
    return (
        ("fabric", f"{fabric.name}: {hosts}"),
        ("bandwidth, alpha", f"{bandwidth} a node, {alpha}"),
    )


def _time_text(seconds: Fraction) -> str:
    return format_time(float(seconds))


def _ranking(selection: Selection, plans: Sequence[tuple[int, RankedPlan]]) -> Table:
    """The plans with their ranks and how much longer they take than the first; a fat tree last."""
    rows: list[dict[str, object]] = [
        {"rank": rank, "plan": plan, "total_s": plan.total_s, "names": handle_and_label(plan)}
        for rank, plan in plans
    ]
    if selection.serving is not None and rows:
        bound = fat_tree_time_s(selection.fabric, selection.workload)
        rows.append({"total_s": bound, "names": (None, "fat tree, at least")})
    return table(
        rows,
        "rank; total=total_s:time; over best; steps=plan.alpha_s:time; bytes=plan.bandwidth_s:time;"
        "circuits=plan.reconfiguration_s:time; changes=plan.num_changes | handle || label",
        cut=True,
        over_best=lambda row: _over_best(selection, row["total_s"]),
        handle=lambda row: row["names"][0],
        label=lambda row: row["names"][1],
    )


def handle_and_label(plan: RankedPlan) -> tuple[str, str]:
    """The handles of a plan's designs, and their labels."""
    return (plan.named(lambda option: handle(option.name)), plan.named(lambda option: option.label))


def _over_best(selection: Selection, time_s: Fraction) -> str:
    best = selection.ranked[0].total_s
    return f"{float(time_s / best):.3f}" if best else "-"


def _break_down(selection: Selection, plan: RankedPlan) -> Table:
    several = len(plan.options) > 1
    return table(
        plan.times,
        "count; message:size; steps=cost.steps; t_b=cost.t_b:.5g; alpha=alpha_s:time; "
        "bytes=bandwidth_s:time; circuits=reconfiguration_s:time; total=total_s:time "
        + ("| part || design" if several else "|| part"),
        message=lambda time: selection.workload.jobs[time.part].message_bytes,
        part=lambda time: _part_text(selection, time),
        design=lambda time: handle(plan.options[time.option].name),
    )


def _part_text(selection: Selection, time: PartTime) -> str:
    part = selection.workload.jobs[time.part]
    told = f"{part.name}, phase {time.phase}" if time.phase else part.name
    if time.forest_parts:
        parts = " and ".join(str(number) if number else "none" for number in time.forest_parts)
        told += f" (forests in {parts} parts)"
    return told


def sentences(selection: Selection) -> list[str]:
    """Three sentences on the winner; one if nothing fits."""
    if not selection.ranked:
        return ["No design fits the fabric."]
    winner, *others = selection.ranked
    second = next((plan for plan in others if plan.total_s > winner.total_s), None)
    ties = sum(plan.total_s == winner.total_s for plan in others)
    told = (
        _why(selection, winner, second),
        _second(selection, winner, second, ties),
        _limits(selection, winner),
    )
    return [sentence[:1].upper() + sentence[1:] for sentence in told]


def _called(selection: Selection, plan: RankedPlan) -> str:
    """The name of a plan, or its number in the ranking if that is a mouthful."""
    if len(plan.name) <= MAX_NAME:
        return plan.name
    return f"plan {1 + selection.ranked.index(plan)}"


def _why(selection: Selection, winner: RankedPlan, second: RankedPlan | None) -> str:
    name, total = _called(selection, winner), _time_text(winner.total_s)
    took = f"{name} takes {total} for {selection.workload.name}"
    if second is None:
        return f"{took}, and no other plan takes another time."
    gains = {name: getattr(second, name) - getattr(winner, name) for name in _PARTS}
    most = max(gains, key=lambda name: gains[name])
    here, there = (_time_text(getattr(plan, most)) for plan in (winner, second))
    why = f"{took} and wins by {_PARTS[most]}, {here} against {there} of the next"
    part = _decisive(selection, winner, second, most)
    return f"{why}, mostly in {part}." if part and most != "reconfiguration_s" else f"{why}."


def _decisive(selection: Selection, winner: RankedPlan, second: RankedPlan, most: str) -> str:
    """The part of the workload in which the winner gains most, if there are several."""
    names = [part.name for part in selection.workload.jobs]
    if len(names) == 1:
        return ""

    def spent(plan: RankedPlan, part: int) -> Fraction:
        return sum((getattr(time, most) for time in plan.times if time.part == part), Fraction(0))

    return names[max(range(len(names)), key=lambda at: spent(second, at) - spent(winner, at))]


def _second(selection: Selection, winner: RankedPlan, second: RankedPlan | None, ties: int) -> str:
    tied = f"{ties} other plan{'s tie' if ties > 1 else ' ties'} with it"
    if second is None:
        return f"{tied}." if ties else "There is no second plan."
    slower = float(second.total_s / winner.total_s - 1) if winner.total_s else float("inf")
    name = _called(selection, second)
    text = f"{name} with {_time_text(second.total_s)}, {slower:.2%} more"
    return f"{tied}; the next is {text}." if ties else f"Second is {text}."


def _limits(selection: Selection, winner: RankedPlan) -> str:
    """What most of the time goes to, and at which message sizes another plan would win."""
    clauses = []
    if winner.total_s:
        most = max(_PARTS, key=lambda name: getattr(winner, name))
        share = float(getattr(winner, most) / winner.total_s)
        clauses.append(f"{share:.1%} of it is {_PARTS[most]}")
    clauses += _crossings(selection, winner)
    switching = _switching_clause(selection, winner)
    text = ", and ".join(clauses)
    return f"{text}; {switching}." if switching else f"{text}."


def _crossings(selection: Selection, winner: RankedPlan) -> list[str]:
    """With messages scaled, the plans as they are: the nearest sizes at which another wins."""
    sizes: dict[str, list[tuple[Fraction, str]]] = {"below": [], "above": []}
    for plan in selection.ranked[1:]:
        fixed = plan.alpha_s + plan.reconfiguration_s
        fixed -= winner.alpha_s + winner.reconfiguration_s
        bytes_s = winner.bandwidth_s - plan.bandwidth_s
        if fixed * bytes_s > 0:
            side = "below" if fixed < 0 else "above"
            sizes[side].append((fixed / bytes_s, _called(selection, plan)))
    clauses = []
    for side, nearest in (("below", max), ("above", min)):
        if sizes[side]:
            scale, name = nearest(sizes[side])
            clauses.append(f"{name} would win with messages {side} {float(scale):.3g} times these")
    return clauses or ["no ranked plan would overtake it if all messages were scaled alike"]


def _switching_clause(selection: Selection, winner: RankedPlan) -> str:
    if selection.workload.allowed is AllowedChanges.NONE:
        return ""
    if winner.kind is not PlanKind.SINGLE:
        single = next((p for p in selection.ranked if p.kind is PlanKind.SINGLE), None)
        if single is None:
            return ""
        saved = _time_text(single.total_s - winner.total_s)
        changes, name = counted(winner.num_changes, "change"), _called(selection, single)
        return f"its {changes} of circuits save {saved} over {name}"
    inside = selection.inside
    if inside is not None and not inside.can_gain:
        return (
            "changing circuits does not pay, also inside an all-to-all, where "
            f"{inside.num_configurations} configurations save at most "
            f"{_time_text(max(inside.saved_s, Fraction(0)))} and take {_time_text(inside.dead_s)}"
        )
    return "changing circuits does not pay"


# What ``select --message`` answers: the same designs ranked for messages of several sizes.


made(
    "select.selections",
    messages_bytes=lambda selections: [_size(selection) for selection in selections],
    best=lambda selections: [
        min(time, key=lambda name: time[name]) for time in map(_times_s, selections) if time
    ],
    selections=lambda selections: selections,
)


def selections_sections(selections: Sequence[Selection], top: int) -> Iterator[Section]:
    """The time of every design, a column a size, and the best of each size."""
    first, times = selections[0], [_times_s(selection) for selection in selections]
    yield Facts(*fabric_facts_of(first), ("collectives", first.workload.name))
    if not first.ranked:
        yield "No design fits the fabric."
        return
    best = [min(time.values()) for time in times]

    def ratios(name: str) -> list[Fraction]:
        """How far a design is from the best of every size, the nearest first."""
        return sorted(time[name] / least for time, least in zip(times, best, strict=True))

    names = sorted(times[0], key=ratios)
    sizes = [format_size(_size(selection)) for selection in selections]
    plans = {plan.name: plan for plan in first.ranked}
    shown = [plans[name] for name in names[:top]]
    rows = [
        (*(format_time(time[plan.name]) for time in times), *handle_and_label(plan))
        for plan in shown
    ]
    columns = (*(f"at {size}" for size in sizes), "handle", "label")
    yield ""
    yield Table(columns, rows, len(sizes), texts=1, cut=True)
    if len(names) > top:
        yield f"{len(names) - top} more: --top shows them."
    yield ""
    for size, time, least in zip(sizes, times, best, strict=True):
        name = next(name for name in names if time[name] == least)
        yield f"Best for {size}: {name} in {format_time(least)}, with its circuits up."
    yield Recipes.of(option.recipe for plan in shown for option in plan.options)


def _times_s(selection: Selection) -> dict[str, Fraction]:
    """The time of every design whose circuits are up."""
    return {plan.name: plan.alpha_s + plan.bandwidth_s for plan in selection.ranked}


def _size(selection: Selection) -> float:
    return float(selection.workload.jobs[0].message_bytes)


# Answers of ``fabric``: what a fabric file describes and costs, and the known switch profiles.


ESTIMATES = "list estimates, to compare fabrics; without fibres, racks, power and work"


def _basis(fabric: Fabric) -> str:
    own = dict(fabric.prices)
    estimates = ESTIMATES.replace("fibres, ", "") if "fibre" in own else ESTIMATES
    return f"those of the file, else {estimates}" if own else estimates


made(
    "select.check",
    ok=lambda _, facts: not facts.findings,
    price=lambda _, __, prices: prices,
    cluster=lambda fabric: None if fabric.servers is None else cluster_of(fabric),
)
made("price", basis=lambda _, fabric: _basis(fabric))
made(
    "fabric_plane",
    dead_time_of_one_circuit_s=lambda plane: float(plane.dead_time_s[0]),
    dead_time_of_all_circuits_s=lambda plane: float(plane.dead_time_s[1]),
)


def check_sections(fabric: Fabric, facts: FabricFacts, prices: PriceList) -> Iterator[Section]:
    """The same to read."""
    model, ports, hosts = fabric.cost_model, fabric.num_ports_per_host, fabric.hosts
    spare = f", of which {fabric.num_spare_hosts} spare" if fabric.num_spare_hosts else ""
    names = hosts if len(hosts) <= 3 else (hosts[0], hosts[1], "...", hosts[-1])
    yield Facts(
        ("fabric", fabric.name),
        ("hosts", f"{len(hosts)}{spare}"),
        ("host names", ", ".join(names)),
        ("switches", f"{len(fabric.switches)} in {fabric.num_planes} planes"),
        ("alpha", format_time(model.alpha_s)),
        ("bandwidth of a host", format_bandwidth(model.node_bandwidth_Bps)),
        ("of a port", f"{format_bandwidth(facts.port_bandwidth_Bps)}, {ports} ports a host"),
        ("loss budget", f"{fabric.loss_budget_db:g} dB"),
    )
    yield ""
    if fabric.servers is not None:
        yield description(cluster_of(fabric))
        yield ""
    yield _plane_table(facts, fabric.loss_budget_db)
    yield ""
    rows = [
        (str(item.count), _usd(item.price_usd), _usd(item.total_usd), item.name)
        for item in prices.items
    ]
    rows.append(("", "", _usd(prices.total_usd), "in all, of switches the ports described"))
    rows.append(("", "", _usd(prices.whole_switches_usd), "in all, with whole switches"))
    yield Table(("count", "each", "USD", "item"), rows, numbers=3, texts=1)
    missing = f"; no price is public of: {', '.join(prices.unpriced)}" if prices.unpriced else ""
    yield f"Prices are {_basis(fabric)}{missing}."
    yield ""
    yield from (f"Amiss: {finding}." for finding in facts.findings)
    if not facts.findings:
        yield "The description is valid, and every plane has ports and light enough."


def _plane_table(facts: FabricFacts, budget_db: float) -> Table:
    """A row for planes in a row that differ in nothing."""
    runs = groupby(facts.planes, key=lambda plane: replace(plane, plane=0))
    return table(
        [(first, [first, *others][-1]) for _, (first, *others) in runs],
        "plane; switches; usable ports; spare; direct dB; three stages dB; dead time "
        "| port model || profile:list",
        plane=lambda run: "-".join(dict.fromkeys(str(plane.plane) for plane in run)),
        switches=lambda run: run[0].num_switches,
        usable_ports=lambda run: run[0].num_usable,
        spare=lambda run: run[0].num_spares,
        direct_dB=lambda run: _loss(run[0].loss_db, budget_db),
        three_stages_dB=lambda run: _loss(run[0].three_stage_loss_db, budget_db),
        dead_time=lambda run: " to ".join(
            dict.fromkeys(format_time(float(time)) for time in run[0].dead_time_s)
        ),
        port_model=lambda run: run[0].port_model.value,
        profile=lambda run: run[0].profiles,
    )


def _loss(loss_db: float | None, budget_db: float) -> str:
    if loss_db is None:
        return "-"
    return f"{loss_db:g}" + (" over" if loss_db > budget_db else "")


def _usd(price: float | None) -> str:
    return "-" if price is None else f"{price:,.10g}"


made("select.profiles", profiles=lambda profiles: profiles)
made("profile", sources=lambda profile: {source.field: source.text for source in profile.sources})


def profiles_sections(profiles: Sequence[SwitchProfile]) -> Iterator[Section]:
    """The same to read: a table of profiles and one of sources."""

    def dead_time(profile: SwitchProfile) -> str:
        change = profile.change
        if change.fixed_s:
            return format_time(float(change.fixed_s))
        return f"{format_time(float(change.per_circuit_s))} a circuit"

    yield table(
        profiles,
        "ports=num_ports; loss dB=insertion_loss_db:g; dead time; USD/port; W=power_w:g "
        "| port model=port_model.value; profile=name || technology",
        dead_time=dead_time,
        USD_port=lambda profile: _usd(profile.price_usd_per_port),
    )
    yield ""
    sources = [
        (profile.name, source.field, source.text)
        for profile in profiles
        for source in profile.sources
    ]
    yield Table(("profile", "number", "source"), sources, texts=1)
