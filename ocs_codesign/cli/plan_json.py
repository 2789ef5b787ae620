"""The plan of a trace as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.texts import cost_json
from ocs_codesign.cli.plan_sentences import sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.cost import Cost
    from ocs_codesign.question import Question
    from ocs_codesign.reconfigure import BreakEvenPiece, FactorRange, SwitchPlan, TracePlan


def plan_json(
    plan: TracePlan, name: str, question: Question, left_out: Sequence[str]
) -> dict[str, Any]:
    """The JSON form of a plan; exact times are fractions of a second, as text."""
    cost = plan.reconfiguration
    held = plan.problem.start
    begin = "cold" if cost.cold_start else "warm"
    value: dict[str, Any] = {
        "trace": name,
        "jobs": plan.trace.num_jobs,
        "compute_s": str(plan.trace.compute_s),
        "nodes": question.num_nodes,
        "degree": question.degree,
        "delta_s": str(cost.fixed_s),
        "delta_per_circuit_s": str(cost.per_circuit_s),
        "start": begin if held is None else plan.options[held].name,
        "cost_model": {
            "alpha_s": plan.model.alpha_s,
            "node_bandwidth_Bps": plan.model.node_bandwidth_Bps,
        },
        "designs": [_design_json(plan, at) for at in range(len(plan.options))],
        "left_out": list(left_out),
        "offline": {**_plan_json(plan, plan.offline), "proven_optimal": plan.offline.is_optimal},
        "online": None,
        "static": None,
        "greedy": None,
    }
    if plan.online is not None:
        value["online"] = {
            **_plan_json(plan, plan.online),
            "ratio": None if plan.online_ratio is None else float(plan.online_ratio),
            "promised_ratio": None if plan.promise is None else plan.promise.ratio,
            "promised_extra_s": None if plan.promise is None else str(plan.promise.extra),
        }
    if plan.static is not None:
        design = plan.options[int(plan.static.choice[0])].name
        value["static"] = {"design": design, **_total_json(plan, plan.static)}
    if plan.greedy is not None:
        value["greedy"] = _total_json(plan, plan.greedy)
    value["break_even"] = {
        "complete": plan.break_even.complete,
        "delta_s": [str(factor * plan.factor_s) for factor in plan.break_even.factors],
        "pieces": [_piece_json(plan, piece) for piece in plan.break_even.pieces],
    }
    value["pays"] = plan.pays
    value["paying"] = [_range_json(plan, one) for one in plan.paying]
    value["ceases_to_pay"] = None
    if plan.ceasing is not None:
        value["ceases_to_pay"] = _range_json(plan, plan.ceasing)
    value["inside"] = [
        {
            "design": one.option,
            "collective": one.collective.name,
            "steps": one.steps,
            "saved_steps_at_most": one.saved_steps,
            "saved_s_at_most": str(one.saved_s),
            "can_gain": one.can_gain,
        }
        for one in plan.inside
    ]
    value["sentences"] = sentences(plan)
    return value


def _range_json(plan: TracePlan, one: FactorRange) -> dict[str, Any]:
    return {
        "from_delta_s": str(one.begin * plan.factor_s),
        "to_delta_s": None if one.end is None else str(one.end * plan.factor_s),
    }


def _design_json(plan: TracePlan, at: int) -> dict[str, Any]:
    option = plan.options[at]

    def said(cost: Cost | None) -> dict[str, Any] | None:
        return None if cost is None else cost_json(cost)

    bound = option.alltoall_bound
    return {
        "recipe": option.name,
        "label": None if option.recipe is None else option.recipe.label(),
        "allgather": said(option.allgather),
        "reduce_scatter": said(option.reduce_scatter),
        "alltoall": said(option.alltoall),
        "alltoall_proven_bound": None if bound is None else str(bound),
    }


def _total_json(plan: TracePlan, chosen: SwitchPlan) -> dict[str, Any]:
    elapsed = chosen.total + plan.trace.compute_s
    return {
        "total_s": str(chosen.total),
        "total_s_float": float(chosen.total),
        "elapsed_s_float": float(elapsed),
        "working_s": str(chosen.working),
        "dark_s": str(chosen.switching),
        "hidden_s": str(chosen.hidden),
        "num_switches": chosen.num_switches,
    }


def _plan_json(plan: TracePlan, chosen: SwitchPlan) -> dict[str, Any]:
    runs = [
        {
            "first_job": run.first_job,
            "last_job": run.last_job,
            "design": plan.options[run.option].name,
            "begin_s_float": float(run.begin_s),
            "dark_s": str(run.dark_s),
            "hidden_s": str(run.hidden_s),
            "working_s": str(run.working_s),
            "compute_s": str(run.compute_s),
        }
        for run in plan.runs(chosen)
    ]
    return {**_total_json(plan, chosen), "runs": runs}


def _piece_json(plan: TracePlan, piece: BreakEvenPiece) -> dict[str, Any]:
    return {
        "from_delta_s": str(piece.begin * plan.factor_s),
        "to_delta_s": None if piece.end is None else str(piece.end * plan.factor_s),
        "from_factor": str(piece.begin),
        "to_factor": None if piece.end is None else str(piece.end),
        "total_at_begin_s": str(piece.total(piece.begin)),
        "num_switches": piece.num_switches,
        "designs": [plan.options[at].name for at in piece.topologies],
    }
