"""What ``select`` answers: the ranking, where the time goes, what is left out, what it means."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.fabric.profiles import cluster_of
from ocs_codesign.fabric.selection.ranking import PlanKind, fat_tree_time_s
from ocs_codesign.fabric.selection.steps import AllowedChanges
from ocs_codesign.faces.answers.networks import description, description_json
from ocs_codesign.faces.answers.sections import Facts, Recipes, Table, counted
from ocs_codesign.faces.answers.texts import among_sentence, cost_json
from ocs_codesign.graphs.handle import handle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.fabric.description import Fabric, FabricFacts, PlaneFacts, SwitchProfile
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


def selection_json(selection: Selection, top: int) -> dict[str, Any]:
    """The selection as JSON; exact times are fractions of seconds as text."""
    fabric, workload, inside = selection.fabric, selection.workload, selection.inside
    return {
        "fabric": fabric.name,
        "nodes": fabric.num_working_hosts,
        "degree": fabric.num_ports_per_host,
        "workload": workload.name,
        "reconfiguration": workload.allowed.value,
        "collectives": workload.trace.num_jobs,
        "compute_s": str(workload.trace.compute_s),
        "designs_compared": None if selection.serving is None else len(selection.serving.looked_at),
        "num_ranked": len(selection.ranked),
        "ranked": [_plan_json(selection, plan) for plan in selection.ranked[:top]],
        "baselines": [
            {"rank": rank, **_plan_json(selection, plan)} for rank, plan in selection.baselines
        ],
        "fat_tree_bound_s": None
        if selection.serving is None
        else float(fat_tree_time_s(fabric, workload)),
        "excluded": [
            {"design": left_out.name, "reason": left_out.reason, "sentence": left_out.sentence}
            for left_out in selection.excluded
        ],
        "inside": None
        if inside is None
        else {
            "configurations": inside.num_configurations,
            "saved_s_at_most": str(inside.saved_s),
            "dead_s_at_least": str(inside.dead_s),
            "sequences_tried": len(inside.sequences),
        },
        "sentences": sentences(selection),
    }


def _plan_json(selection: Selection, plan: RankedPlan) -> dict[str, Any]:
    return {
        "kind": plan.kind.value,
        "designs": [option.name for option in plan.options],
        "total_s": str(plan.total_s),
        "total_s_float": float(plan.total_s),
        **{name: str(getattr(plan, name)) for name in _TIMES},
        "hidden_s": str(plan.hidden_s),
        "num_changes": plan.num_changes,
        "parts": [
            {
                "name": selection.workload.jobs[time.part].name,
                "collective": time.collective.name,
                "phase": time.phase or None,
                "design": plan.options[time.option].name,
                "count": time.count,
                "cost": cost_json(time.cost),
                **({"forest_parts": list(time.forest_parts)} if time.forest_parts else {}),
                **{name: str(getattr(time, name)) for name in _TIMES},
                "total_s_float": float(time.total_s),
            }
            for time in plan.times
        ],
    }


def selection_sections(selection: Selection, top: int) -> Iterator[Section]:
    """The ranking, break-downs of the first plans, what was left out, and what it means."""
    workload, shown = selection.workload, selection.ranked[:top]
    yield Facts(
        *fabric_facts_of(selection),
        ("workload", f"{workload.name}: {workload.trace.num_jobs} collectives"),
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
    return (
        ("fabric", f"{fabric.name}: {hosts}"),
        ("bandwidth, alpha", f"{bandwidth} a node, {format_time(fabric.cost_model.alpha_s)}"),
    )


def _time_text(seconds: Fraction) -> str:
    return format_time(float(seconds))


def _ranking(selection: Selection, plans: Sequence[tuple[int, RankedPlan]]) -> Table:
    """The plans with their ranks and how much longer they take than the first; a fat tree last."""
    columns = ("rank", "total", "over best", "steps", "bytes", "circuits", "changes")
    rows = [
        (
            str(number),
            _time_text(plan.total_s),
            _over_best(selection, plan.total_s),
            *(_time_text(time) for time in (plan.alpha_s, plan.bandwidth_s)),
            _time_text(plan.reconfiguration_s),
            str(plan.num_changes),
            *handle_and_label(plan),
        )
        for number, plan in plans
    ]
    if selection.serving is not None and rows:
        bound = fat_tree_time_s(selection.fabric, selection.workload)
        text = "fat tree, at least"
        cells = (
            "-",
            _time_text(bound),
            _over_best(selection, bound),
            "-",
            "-",
            "-",
            "-",
            "-",
            text,
        )
        rows.append(cells)
    return Table((*columns, "handle", "label"), rows, numbers=7, texts=1, cut=True)


def handle_and_label(plan: RankedPlan) -> tuple[str, str]:
    """The handles of a plan's designs, and their labels."""
    return (plan.named(lambda option: handle(option.name)), plan.named(lambda option: option.label))


def _over_best(selection: Selection, time_s: Fraction) -> str:
    best = selection.ranked[0].total_s
    return f"{float(time_s / best):.3f}" if best else "-"


def _break_down(selection: Selection, plan: RankedPlan) -> Table:
    columns: tuple[str, ...] = ("count", "message", "steps", "t_b", "alpha", "bytes", "circuits")
    columns = (*columns, "total", "part")
    rows = [_part_row(selection, time) for time in plan.times]
    if len(plan.options) > 1:
        columns = (*columns, "design")
        designs = (handle(plan.options[time.option].name) for time in plan.times)
        rows = [(*row, design) for row, design in zip(rows, designs, strict=True)]
    return Table(columns, rows, numbers=8, texts=1)


def _part_row(selection: Selection, time: PartTime) -> tuple[str, ...]:
    part = selection.workload.jobs[time.part]
    told = f"{part.name}, phase {time.phase}" if time.phase else part.name
    if time.forest_parts:
        parts = " and ".join(str(number) if number else "none" for number in time.forest_parts)
        told += f" (forests in {parts} parts)"
    times = (time.alpha_s, time.bandwidth_s, time.reconfiguration_s, time.total_s)
    return (
        str(time.count),
        format_size(float(part.message_bytes)),
        str(time.cost.steps),
        f"{float(time.cost.t_b):.5g}",
        *(_time_text(seconds) for seconds in times),
        told,
    )


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


def selections_json(selections: Sequence[Selection], top: int) -> dict[str, Any]:
    """The selections for several message sizes as JSON; ``best`` has none if nothing fits."""
    times = [_times_s(selection) for selection in selections]
    return {
        "message_bytes": [_size(selection) for selection in selections],
        "best": [min(time, key=lambda name: time[name]) for time in times if time],
        "selections": [selection_json(selection, top) for selection in selections],
    }


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


def check_json(file: str, fabric: Fabric, facts: FabricFacts, prices: PriceList) -> dict[str, Any]:
    """What a fabric FILE describes, what is amiss and what it costs, as JSON."""
    model = fabric.cost_model
    items = [
        {
            "item": item.name,
            "count": item.count,
            "price_usd": item.price_usd,
            "total_usd": item.total_usd,
        }
        for item in prices.items
    ]
    return {
        "file": file,
        "ok": not facts.findings,
        "findings": list(facts.findings),
        "name": fabric.name,
        "hosts": len(fabric.hosts),
        "spare_hosts": fabric.num_spare_hosts,
        "planes": [_plane_json(plane) for plane in facts.planes],
        "switches": len(fabric.switches),
        "ports_per_host": fabric.num_ports_per_host,
        "alpha_s": model.alpha_s,
        "node_bandwidth_Bps": model.node_bandwidth_Bps,
        "port_bandwidth_Bps": facts.port_bandwidth_Bps,
        "loss_budget_db": fabric.loss_budget_db,
        "price": {
            "basis": ESTIMATES,
            "items": items,
            "total_usd": prices.total_usd,
            "whole_switches_usd": prices.whole_switches_usd,
            "unpriced": list(prices.unpriced),
        },
        **({} if fabric.servers is None else {"cluster": description_json(cluster_of(fabric))}),
    }


def _plane_json(plane: PlaneFacts) -> dict[str, Any]:
    one, full = plane.dead_time_s
    return {
        "plane": plane.plane,
        "port_model": plane.port_model.value,
        "profiles": list(plane.profiles),
        "switches": plane.num_switches,
        "usable_ports": plane.num_usable,
        "spare_ports": plane.num_spares,
        "direct_loss_db": plane.loss_db,
        "three_stage_loss_db": plane.three_stage_loss_db,
        "dead_time_of_one_circuit_s": float(one),
        "dead_time_of_all_circuits_s": float(full),
    }


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
    yield f"Prices are {ESTIMATES}{missing}."
    yield ""
    yield from (f"Amiss: {finding}." for finding in facts.findings)
    if not facts.findings:
        yield "The description is valid, and every plane has ports and light enough."


def _plane_table(facts: FabricFacts, budget_db: float) -> Table:
    """A row for planes in a row that differ in nothing."""
    rows = []
    for _, run in groupby(facts.planes, key=lambda plane: replace(plane, plane=0)):
        first, *others = run
        dead_time = dict.fromkeys(format_time(float(time)) for time in first.dead_time_s)
        rows.append(
            (
                f"{first.plane}-{others[-1].plane}" if others else str(first.plane),
                str(first.num_switches),
                str(first.num_usable),
                str(first.num_spares),
                _loss(first.loss_db, budget_db),
                _loss(first.three_stage_loss_db, budget_db),
                " to ".join(dead_time),
                first.port_model.value,
                ", ".join(first.profiles),
            )
        )
    columns = ("plane", "switches", "usable ports", "spare", "direct dB", "three stages dB")
    return Table((*columns, "dead time", "port model", "profile"), rows, numbers=7, texts=1)


def _loss(loss_db: float | None, budget_db: float) -> str:
    if loss_db is None:
        return "-"
    return f"{loss_db:g}" + (" over" if loss_db > budget_db else "")


def _usd(price: float | None) -> str:
    return "-" if price is None else f"{price:,.10g}"


def profiles_json(profiles: Sequence[SwitchProfile]) -> dict[str, Any]:
    """Switch profiles, every number with its source, as JSON."""
    return {
        "profiles": [
            {
                "name": profile.name,
                "technology": profile.technology,
                "port_model": profile.port_model.value,
                "ports": profile.num_ports,
                "insertion_loss_db": profile.insertion_loss_db,
                "delta_s": float(profile.change.fixed_s),
                "delta_per_circuit_s": float(profile.change.per_circuit_s),
                "price_usd_per_port": profile.price_usd_per_port,
                "power_w": profile.power_w,
                "sources": {source.field: source.text for source in profile.sources},
            }
            for profile in profiles
        ]
    }


def profiles_sections(profiles: Sequence[SwitchProfile]) -> Iterator[Section]:
    """The same to read: a table of profiles and one of sources."""
    rows = []
    for profile in profiles:
        change = profile.change
        per_circuit = f"{format_time(float(change.per_circuit_s))} a circuit"
        rows.append(
            (
                str(profile.num_ports),
                f"{profile.insertion_loss_db:g}",
                format_time(float(change.fixed_s)) if change.fixed_s else per_circuit,
                _usd(profile.price_usd_per_port),
                "-" if profile.power_w is None else f"{profile.power_w:g}",
                profile.port_model.value,
                profile.name,
                profile.technology,
            )
        )
    columns = ("ports", "loss dB", "dead time", "USD/port", "W", "port model", "profile")
    yield Table((*columns, "technology"), rows, numbers=5, texts=1)
    yield ""
    sources = [
        (profile.name, source.field, source.text)
        for profile in profiles
        for source in profile.sources
    ]
    yield Table(("profile", "number", "source"), sources, texts=1)
