"""Sentences of a co-design: how a model is divided, on what circuits, and why that is best."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import counted
from ocs_codesign.quantities import format_bandwidth, format_time
from ocs_codesign.workload.codesign.candidates import Joining
from ocs_codesign.workload.codesign.placements import PIPELINE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ocs_codesign.reconfigure.hold.options import FabricOption
    from ocs_codesign.workload.codesign.candidates import Candidate
    from ocs_codesign.workload.codesign.outcomes import JobOutcome
    from ocs_codesign.workload.codesign.planning import CodesignPlan

_ALIKE = Fraction(1, 1000)


def parts_json(outcome: JobOutcome) -> dict[str, Any]:
    """Where the time of an iteration goes."""
    return {
        "compute_s": outcome.compute_s,
        "exposed_s": dict(outcome.exposed_s),
        "idle_s": outcome.idle_s,
        "dark_s": outcome.dark_s,
        "is_steady": outcome.is_steady,
    }


def division_text(candidate: Candidate) -> str:
    """What lies inside servers, then what goes over light, and how gradients are kept.

    As in ``expert 8 | replica 32, zero 1``.
    """
    parallel, spans = candidate.parallel, candidate.placement.spans
    inside = [f"{span.dimension} {span.inside}" for span in spans if span.inside > 1]
    outside = [f"{span.dimension} {span.outside}" for span in spans if span.outside > 1]
    told = f"{' '.join(inside) or '-'} | {' '.join(outside) or '-'}"
    extra = [f"zero {parallel.zero}"] * bool(parallel.zero)
    extra += [f"{parallel.microbatches} microbatches"] * (parallel.microbatches > 1)
    extra += [f"{parallel.chunks} chunks a stage"] * (parallel.chunks > 1)
    return ", ".join([told, *extra])


def circuits_text(candidate: Candidate, name_of: Callable[[str], str]) -> str:
    """What joins the servers, with handles of the recipes."""
    if not candidate.placement.optical:
        return "nothing outside a server"
    if "" in candidate.designs:
        return f"{candidate.joining.value} {_named(candidate.designs[''], name_of)}"
    if candidate.joining is Joining.FAT_TREE:
        return "fat tree"
    early = _ports_text(candidate.ports, candidate.designs, name_of)
    if candidate.joining is Joining.ACROSS:
        return f"across rails {early}"
    if not candidate.late_ports:
        return early
    late = _ports_text(candidate.late_ports, candidate.late_designs, name_of)
    return f"{early}; then for gradients {late}"


def _ports_text(
    ports: dict[str, int], designs: dict[str, FabricOption], name_of: Callable[[str], str]
) -> str:
    parts = []
    for dimension, number in ports.items():
        told = "ring" if dimension == PIPELINE else ""
        if dimension in designs:
            told = _named(designs[dimension], name_of)
        parts.append(f"{dimension} {number} {told}".rstrip())
    return ", ".join(parts)


def _named(option: FabricOption, name_of: Callable[[str], str]) -> str:
    return option.label if option.recipe is None else name_of(repr(option.recipe))


def search_text(plan: CodesignPlan) -> Iterator[str]:
    """What was looked at, and what was not and why."""
    divided, found = plan.divisions, plan.explored
    skipped = ", ".join(f"{count} {what}" for what, count in sorted(found.skipped.items()))
    yield (
        f"Of {counted(len(divided.fitting), 'division')} that fit, "
        f"{counted(len(found.outcomes), 'candidate')} were simulated; bounds left out "
        f"{skipped or 'none'}, which no order of messages makes faster. "
        f"{divided.num_too_large} divisions need more memory."
    )
    notes = []
    if divided.num_too_long:
        notes.append(f"{counted(divided.num_too_long, 'division')} are too long to simulate")
    if found.unseen:
        least = format_time(found.unseen_bound_s or 0.0)
        notes.append(
            f"{found.unseen} were left out by the limit of simulations, whose bounds are "
            f"{least} and more"
        )
    if found.num_stuck:
        notes.append(f"{found.num_stuck} have ranks that wait for each other for ever")
    if found.num_unsolved:
        notes.append(f"{found.num_unsolved} have all-to-alls that are too large to solve")
    if plan.num_unproven:
        notes.append(
            f"{plan.num_unproven} were tried with fifo and priority alone, and might gain by "
            "another policy"
        )
    notes += [
        f"designs of {nodes} nodes with {counted(ports, 'port')} are those known, not searched long"
        for nodes, ports in plan.unsearched
    ]
    if notes:
        yield f"Not proven: {'; '.join(notes)}."


def explanation(plan: CodesignPlan) -> list[str]:
    """The winner in a few sentences: what dominates, why it lies so, and what would change it."""
    told = [_dominates(plan.best), _why(plan), *_beside(plan), *_packets(plan)]
    return [*told, _would_change(plan)]


def _dominates(best: JobOutcome) -> str:
    share = 100 * float(best.compute_s / best.period_s)
    parts = [f"computation takes {share:.0f} %"]
    for label, seconds in sorted(best.exposed_s.items(), key=lambda item: -item[1]):
        percent = 100 * float(seconds / best.period_s)
        if percent >= 0.5:
            parts.append(f"{label} that nothing hides {percent:.0f} %")
    for what, seconds in (("waiting for others", best.idle_s), ("dark ports", best.dark_s)):
        percent = 100 * float(seconds / best.period_s)
        if percent >= 0.5:
            parts.append(f"{what} {percent:.0f} %")
    return f"Of an iteration {', '.join(parts)}."


def _why(plan: CodesignPlan) -> str:
    candidate, cluster = plan.best.candidate, plan.cluster
    spans = candidate.placement.spans
    inner = [span.dimension for span in spans if span.inside > 1]
    outer = [span.dimension for span in spans if span.outside > 1]
    parts = []
    if inner and cluster.scale_up is not None:
        rate = format_bandwidth(cluster.scale_up.node_bandwidth_Bps)
        parts.append(f"{_listed(inner)} stay inside servers at {rate}")
    if outer:
        rate = format_bandwidth(cluster.num_ports * cluster.port_Bps)
        parts.append(f"{_listed(outer)} go over light at {rate} in all")
    runner = next(
        (one for one in plan.ranked[1:] if one.candidate.parallel != candidate.parallel), None
    )
    told = f"Groups of {', those of '.join(parts)}" if parts else "One rank holds the model"
    if runner is None:
        return f"{told}."
    more = _more(runner, plan.best)
    return f"{told}; the next division ({division_text(runner.candidate)}) takes {more}."


def _beside(plan: CodesignPlan) -> Iterator[str]:
    parts = []
    for one in plan.baselines:
        if one.outcome is None:
            parts.append(f"{one.name}: {one.note}")
            continue
        name = one.name
        if one.outcome.candidate.joining is Joining.FAT_TREE:
            share = 100 * float(plan.cluster.fat_tree_share)
            name += f" of equal cost, at {share:.0f} % of the bandwidth,"
        note = f" ({one.note})" if one.note else ""
        parts.append(f"{name} takes {_more(one.outcome, plan.best)}{note}")
    yield f"Beside it: {'; '.join(parts)}."


def _packets(plan: CodesignPlan) -> Iterator[str]:
    """Why packets are better for the same money, if they are."""
    tree = next(
        (
            one.outcome
            for one in plan.baselines
            if one.outcome is not None and one.outcome.candidate.joining is Joining.FAT_TREE
        ),
        None,
    )
    best = plan.best
    if tree is None or tree.period_s >= best.period_s * (1 - _ALIKE):
        return
    causes = []
    if tree.candidate.parallel != best.candidate.parallel:
        causes.append(f"the model can be divided into {division_text(tree.candidate)}")
    hops = circuits_of_exchange(best.candidate)
    if hops > 1 + _ALIKE:
        causes.append(
            f"a byte of an all-to-all crosses {float(hops):.2g} circuits, and one port of a tree"
        )
    if len(best.candidate.ports) > 1:
        names = _listed(sorted(best.candidate.ports))
        causes.append(f"circuits divide ports between {names}, and a tree lends each all of them")
    if best.candidate.joining is Joining.ACROSS:
        causes.append("what changes rail does so inside servers, for a time that a tree saves")
    reason = f": {'; '.join(causes)}" if causes else ""
    yield f"A packet network is the better fabric for this job at these prices{reason}."


def circuits_of_exchange(candidate: Candidate) -> Fraction:
    """Circuits that a byte of an all-to-all crosses at most in the mean, 0 without all-to-alls."""
    found = [Fraction(0)]
    for option in candidate.designs.values():
        if option.alltoall is not None and option.recipe is not None:
            nodes = option.recipe.num_nodes
            found.append(option.alltoall.t_b * Fraction(nodes, nodes - 1))
    return max(found)


def _would_change(plan: CodesignPlan) -> str:
    parts = []
    for what, seconds in plan.if_changed.items():
        saved = 100 * float(1 - seconds / plan.best.period_s)
        meets = "nothing, since messages then meet in a worse order"
        parts.append(f"{what} {f'{saved:.1f} %' if saved >= 0 else meets}")
    told = f"Twice as fast it would save: {', '.join(parts)}."
    if plan.best.candidate.joining is Joining.CHANGING:
        return told
    if plan.break_even_s is None:
        return f"{told} Circuits that change would not pay even in no time."
    least = format_time(plan.break_even_s)
    return f"{told} Circuits that change would pay if they did in less than {least}."


def _more(outcome: JobOutcome, best: JobOutcome) -> str:
    over = outcome.period_s / best.period_s - 1
    if abs(over) < _ALIKE:
        return "as long"
    return f"{100 * abs(float(over)):.1f} % {'more' if over > 0 else 'less'}"


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def picture_rows(plan: CodesignPlan, top: int) -> list[tuple[str, JobOutcome]]:
    """The first of the ranking and the baselines, with a name each."""
    rows = [(f"rank {rank}", one) for rank, one in enumerate(plan.ranked[:top], 1)]
    rows += [(one.name, one.outcome) for one in plan.baselines if one.outcome is not None]
    return rows
