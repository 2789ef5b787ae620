"""A co-design as an answer: the ranking, baselines beside it, why it is so, and how to build it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.quantities import format_bandwidth, format_size, format_time
from ocs_codesign.faces.answers.declared import excluded, made, records, table
from ocs_codesign.faces.answers.sections import Facts, Recipes, Table, counted
from ocs_codesign.graphs.handle import handle
from ocs_codesign.jobs.cluster_design.candidates import Joining
from ocs_codesign.jobs.cluster_design.cluster import SOURCE, memory_bytes
from ocs_codesign.jobs.cluster_design.group_loads import PIPELINE
from ocs_codesign.jobs.cluster_design.outcomes import BASE_POLICIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ocs_codesign.circuits.legs.options import FabricOption
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.jobs.budgets import Allocation, BudgetProblem, Objective
    from ocs_codesign.jobs.cluster_design.candidates import Candidate
    from ocs_codesign.jobs.cluster_design.outcomes import JobOutcome
    from ocs_codesign.jobs.cluster_design.planning import CodesignPlan
    from ocs_codesign.jobs.files.budget_files import Handover
    from ocs_codesign.jobs.whole_budgets import WholeAllocation


# Sentences of a co-design: how a model is divided, on what circuits, and why that is best.


_ALIKE = Fraction(1, 1000)


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
        base = _listed([name for name in BASE_POLICIES if name in (plan.policies or BASE_POLICIES)])
        notes.append(
            f"{plan.num_unproven} were tried with {base} alone, and might gain by another policy"
        )
    notes += [
        f"designs of {nodes} nodes with {counted(ports, 'port')} are those known, not searched long"
        for nodes, ports in plan.unsearched
    ]
    if notes:
        yield f"Not proven: {'; '.join(notes)}."


def explanation(plan: CodesignPlan) -> list[str]:
    """The winner in a few sentences: what dominates, why it lies so, and what would change it."""
    told = [_dominates(plan.best), _why(plan), *_idle(plan), *_beside(plan), *_packets(plan)]
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


def _idle(plan: CodesignPlan) -> Iterator[str]:
    """Why some accelerators are not used, if they are not."""
    used, there = plan.best.candidate.parallel.num_ranks, plan.cluster.num_accelerators
    if used == there:
        return
    told = f"{there - used} of {there} accelerators are idle"
    most = max(parallel.num_ranks for parallel in plan.divisions.fitting)
    wider = (one for one in plan.ranked if one.candidate.parallel.num_ranks > used)
    runner = next(wider, None)
    if most <= used:
        yield (
            f"{told}: data, tensor, pipeline and expert parts divide the batch, heads, layers and "
            f"experts of the model, and no such division that fits has more than {most} ranks."
        )
    elif runner is not None:
        num = runner.candidate.parallel.num_ranks
        yield f"{told}: the fastest of more, on {num}, takes {_more(runner, plan.best)}."
    elif plan.explored.unseen:
        yield f"{told}: no division that uses more was simulated."
    else:
        yield f"{told}: those that use more lie unevenly on servers, or their bounds are no better."


def _beside(plan: CodesignPlan) -> Iterator[str]:
    parts = []
    for one in plan.baselines:
        if one.outcome is None:
            continue
        name = one.name
        if one.outcome.candidate.joining is Joining.FAT_TREE:
            tree, share = plan.cluster.fat_tree, 100 * float(plan.cluster.fat_tree_share)
            built = f"{counted(tree.planes, 'plane')} of {counted(tree.tiers, 'tier')}"
            switches = f"{tree.planes * tree.switches} switches"
            name += f" of equal cost ({built}, {switches}), at {share:.0f} % of the bandwidth,"
        note = f" ({one.note})" if one.note else ""
        parts.append(f"{name} takes {_more(one.outcome, plan.best)}{note}")
    if parts:
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
        saved = -1.0 if seconds is None else 100 * float(1 - seconds / plan.best.period_s)
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
    """The first of the ranking, and the baselines that the memory holds, with a name each."""
    rows = [
        (f"{rank}. {division_text(one.candidate)}, {one.policy}", one)
        for rank, one in enumerate(plan.ranked[:top], 1)
    ]
    beside = ((one.name, one.outcome) for one in plan.baselines if one.fits)
    rows += [(name, outcome) for name, outcome in beside if outcome is not None]
    return rows


@final
@dataclass(frozen=True, slots=True)
class CodesignAnswer:
    """A plan, what is handed to deploy, and where the files of it are or would be."""

    plan: CodesignPlan
    handed: tuple[Handover, ...]
    directory: str
    is_written: bool = False


def _over_best(baseline: Any, answer: CodesignAnswer) -> Any:
    outcome = baseline.outcome
    return None if outcome is None else outcome.period_s / answer.plan.best.period_s


made(
    "codesign.codesign",
    ranking=lambda answer, top: [
        {
            "rank": rank,
            **records()["outcome"].json(outcome, answer),
            "compute_bound_s": bounds.compute_s,
            "communication_bound_s": bounds.communication_s,
        }
        for rank, (outcome, bounds) in enumerate(
            zip(answer.plan.ranked[:top], answer.plan.bounds[:top], strict=True), 1
        )
    ],
    explanation=lambda answer: explanation(answer.plan),
    search=lambda answer: answer.plan,
    excluded=lambda answer: [
        excluded(f"{count} {what}", "bound", "no order of messages makes them as fast as the best")
        for what, count in sorted(answer.plan.explored.skipped.items())
    ],
    memory_model=SOURCE,
    deploy=lambda answer: [each.command(answer.directory) for each in answer.handed],
)
made("codesign_baseline", over_best=_over_best)
made("codesign_search", skipped_by_bounds=lambda plan: dict(sorted(plan.explored.skipped.items())))
made(
    "outcome",
    division=lambda outcome: {
        name: getattr(outcome.candidate.parallel, name)
        for name in outcome.candidate.parallel.__slots__
    },
    memory_bytes=lambda outcome, *beside: memory_bytes(
        next(each for each in beside if isinstance(each, CodesignAnswer)).plan.trained.model,
        outcome.candidate.parallel,
    ),
    designs=lambda outcome: _recipes(outcome.candidate.designs),
    gradient_designs=lambda outcome: _recipes(outcome.candidate.late_designs),
)


def _recipes(designs: dict[str, FabricOption]) -> dict[str, str]:
    return {name: str(option.recipe) for name, option in designs.items()}


def codesign_sections(answer: CodesignAnswer, top: int) -> Iterator[Section]:
    """The same to read."""
    plan = answer.plan
    cluster, best = plan.cluster, plan.best
    ports = f"{counted(cluster.num_ports, 'port')} of {format_bandwidth(cluster.port_Bps)}"
    used = best.candidate.parallel.num_ranks
    yield Facts(
        ("job", plan.trained.name),
        (
            "cluster",
            f"{cluster.name}: {cluster.num_servers} x {cluster.accelerators_a_server} "
            f"accelerators with {ports} each",
        ),
        ("iteration", f"{format_time(best.period_s)} on {used} of {cluster.num_accelerators}"),
        ("bound", f"{format_time(best.bound_s)}: under no policy is this division faster here"),
        ("compute alone", format_time(plan.bounds[0].compute_s)),
        ("messages alone", format_time(plan.bounds[0].communication_s)),
        ("memory", _memory_text(plan, best)),
    )
    yield ""
    yield _outcomes("rank", plan, enumerate(plan.ranked[:top], 1))
    yield "What is left of | is inside servers, what is right of it over light with so many ports."
    more = len(plan.ranked) - top
    if more > 0:
        yield f"{more} more were simulated: --top shows them."
    yield ""
    beside = [
        (each.name if each.fits or each.outcome is None else f"{each.name}, does not fit", each)
        for each in plan.baselines
    ]
    yield _outcomes("baseline", plan, [(name, each.outcome or each.note) for name, each in beside])
    yield ""
    yield from search_text(plan)
    yield ""
    yield from explanation(plan)
    yield ""
    yield from _deploy(answer)
    yield Recipes.of(
        option.recipe
        for one in plan.ranked[:top]
        for options in (one.candidate.designs, one.candidate.late_designs)
        for option in options.values()
    )


def _memory_text(plan: CodesignPlan, outcome: JobOutcome) -> str:
    needed = memory_bytes(plan.trained.model, outcome.candidate.parallel)
    return f"{needed / 1e9:.3g} of {plan.cluster.memory_bytes / 1e9:.3g} GB, after {SOURCE}"


def _outcomes(
    first: str, plan: CodesignPlan, rows: Iterable[tuple[object, JobOutcome | str]]
) -> Table:
    """Iterations with a name each; of what cannot be it is told why, in place of what joins it."""

    def told(tell: Callable[[JobOutcome], Any]) -> Callable[..., Any]:
        return lambda row: None if isinstance(row[1], str) else tell(row[1])

    return table(
        rows,
        f"{first}; iteration:time; over best:.3f; bound:time; exposed:time "
        "|| policy; division; joined by",
        rank=lambda row: row[0],
        baseline=lambda row: row[0],
        iteration=told(lambda outcome: outcome.period_s),
        over_best=told(lambda outcome: outcome.period_s / plan.best.period_s),
        bound=told(lambda outcome: outcome.bound_s),
        exposed=told(lambda outcome: sum(outcome.exposed_s.values()) + outcome.dark_s),
        policy=told(lambda outcome: outcome.policy),
        division=told(lambda outcome: division_text(outcome.candidate)),
        joined_by=lambda row: (
            row[1] if isinstance(row[1], str) else circuits_text(row[1].candidate, handle)
        ),
    )


def _deploy(answer: CodesignAnswer) -> Iterator[Section]:
    if not answer.handed:
        yield "The winner needs no light: all ranks are in one server."
        return
    cluster = answer.plan.cluster
    each = cluster.accelerators_a_server
    rails = f", on each of the {each} rails alike" * (each > 1)
    if answer.plan.best.candidate.joining is Joining.ACROSS:
        rails = (
            f", on all {each} rails together: ports {cluster.num_ports} r to "
            f"{cluster.num_ports} r + {cluster.num_ports - 1} of a server are those of accelerator "
            "r, and what changes rail in a server is not in the schedule"
        )
    where = "" if answer.is_written else f" (--out {answer.directory} writes the fabric's file)"
    yield f"To build it{rails}{where}:"
    yield from (one.command(answer.directory) for one in answer.handed)


# Budgets of bandwidth as an answer: what every dimension gets, and what an even split takes.


GB = 10**9


@final
@dataclass(frozen=True, slots=True)
class BudgetAnswer:
    """A problem, its best bandwidths, those in whole units if asked for, and what there is today.

    ``present_Bps`` are the bandwidths that it is compared with: a network's own, or an even split.
    """

    name: str
    dimensions: tuple[str, ...]
    problem: BudgetProblem
    objective: Objective
    best: Allocation
    unit_Bps: Fraction | None  # noqa: N815 - the unit keeps its case
    whole: WholeAllocation | None
    present: str
    present_Bps: tuple[Fraction, ...] | None  # noqa: N815


made("codesign.allocation", present=lambda answer: answer.present_Bps and answer)
made(
    "present_split",
    time_s=lambda answer: answer.problem.time_s(answer.present_Bps),
    cost=lambda answer: answer.problem.cost(answer.present_Bps),
)


def allocation_sections(answer: BudgetAnswer) -> Iterator[Section]:
    """A row a dimension, and a line for every split."""
    problem, best, whole = answer.problem, answer.best, answer.whole
    yield Facts(
        ("budget of", answer.name),
        ("least", answer.objective.value.replace("-", " x ")),
        ("computation", format_time(problem.compute_s)),
    )
    yield ""
    columns = ["GB/s", *(["units"] if whole else []), *([answer.present] if answer.present else [])]
    rows = []
    for dim, name in enumerate(answer.dimensions):
        sent = sum((row[dim] for row in problem.sent), Fraction(0))
        cells = [f"{best.bandwidths_Bps[dim] / GB:.6g}"]
        cells += [str(whole.units[dim])] if whole else []
        if answer.present_Bps is not None:
            cells.append(f"{float(answer.present_Bps[dim]) / GB:.6g}")
        rows.append((*cells, format_size(sent), name))
    columns += ["sends", "dimension"]
    yield Table(tuple(columns), rows, numbers=len(columns) - 1, texts=1)
    yield ""
    yield Table(("time", "cost", "split"), list(_splits(answer)), numbers=2, texts=1)


def _splits(answer: BudgetAnswer) -> Iterator[tuple[str, str, str]]:
    problem, whole = answer.problem, answer.whole
    yield format_time(answer.best.time_s), f"{answer.best.cost:.7g}", "best"
    if whole is not None:
        how = "the best of all" if whole.is_best else "beside the best, and improved"
        told = f"whole units of {float(answer.unit_Bps or 0) / GB:g} GB/s: {how}"
        yield format_time(whole.time_s), f"{float(whole.cost):.7g}", told
    if answer.present_Bps is not None:
        rates: Sequence[Fraction] = answer.present_Bps
        yield (
            format_time(problem.time_s(rates)),
            f"{float(problem.cost(rates)):.7g}",
            answer.present,
        )
