"""The plan of a trace as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.plan.sections import fat_tree_s, plan_sentences
from ocs_codesign.answers.texts import cost_json

if TYPE_CHECKING:
    from ocs_codesign.answers.plan.sections import PlannedTrace
    from ocs_codesign.cost import Cost
    from ocs_codesign.reconfigure.hold.lines import BreakEvenPiece
    from ocs_codesign.reconfigure.hold.options import FabricOption
    from ocs_codesign.reconfigure.hold.plan import SwitchPlan
    from ocs_codesign.reconfigure.hold.trace_plan import TracePlan
    from ocs_codesign.reconfigure.ranges import OpenRange


def plan_json(answer: PlannedTrace) -> dict[str, Any]:
    """The JSON form of a plan; exact times are fractions of a second, as text."""
    plan, cost = answer.plan, answer.plan.reconfiguration
    static, greedy = plan.static, plan.greedy
    online = None
    if plan.online is not None:
        online = {
            **_runs_json(plan, plan.online),
            "ratio": None if plan.online_ratio is None else float(plan.online_ratio),
            "promised_ratio": None if plan.promise is None else plan.promise.ratio,
            "promised_extra_s": None if plan.promise is None else str(plan.promise.extra),
        }
    return {
        "trace": answer.name,
        "jobs": plan.trace.num_jobs,
        "compute_s": str(plan.trace.compute_s),
        "nodes": answer.question.num_nodes,
        "degree": answer.question.degree,
        "delta_s": str(cost.fixed_s),
        "delta_per_circuit_s": str(cost.per_circuit_s),
        "start": answer.start,
        "cost_model": {
            "alpha_s": plan.model.alpha_s,
            "node_bandwidth_Bps": plan.model.node_bandwidth_Bps,
        },
        "designs": [_design_json(option) for option in plan.options],
        "designs_compared": len(plan.options)
        if answer.serving is None
        else len(answer.serving.looked_at),
        "left_out": list(answer.left_out),
        "offline": {**_runs_json(plan, plan.offline), "proven_optimal": plan.offline.is_optimal},
        "online": online,
        "fat_tree_s": None if answer.serving is None else str(fat_tree_s(answer)),
        "static": None
        if static is None
        else {"design": plan.options[int(static.choice[0])].name, **_total_json(plan, static)},
        "greedy": None if greedy is None else _total_json(plan, greedy),
        "break_even": {
            "complete": plan.break_even.complete,
            "delta_s": [str(factor * plan.factor_s) for factor in plan.break_even.factors],
            "pieces": [
                {
                    **_range_json(plan, piece),
                    "from_factor": str(piece.begin),
                    "to_factor": None if piece.end is None else str(piece.end),
                    "total_at_begin_s": str(piece.total(piece.begin)),
                    "num_switches": piece.num_switches,
                    "designs": [plan.options[at].name for at in piece.topologies],
                }
                for piece in plan.break_even.pieces
            ],
        },
        "pays": plan.pays,
        "paying": [_range_json(plan, factors) for factors in plan.paying],
        "ceases_to_pay": None if plan.ceasing is None else _range_json(plan, plan.ceasing),
        "inside": [
            {
                "design": gain.option,
                "collective": gain.collective.name,
                "steps": gain.steps,
                "saved_steps_at_most": gain.saved_steps,
                "saved_s_at_most": str(gain.saved_s),
                "can_gain": gain.can_gain,
            }
            for gain in plan.inside
        ],
        "sentences": plan_sentences(plan),
    }


def _range_json(plan: TracePlan, factors: OpenRange | BreakEvenPiece) -> dict[str, Any]:
    return {
        "from_delta_s": str(factors.begin * plan.factor_s),
        "to_delta_s": None if factors.end is None else str(factors.end * plan.factor_s),
    }


def _design_json(option: FabricOption) -> dict[str, Any]:
    def known(cost: Cost | None) -> dict[str, Any] | None:
        return None if cost is None else cost_json(cost)

    bound = option.alltoall_bound
    return {
        "recipe": option.name,
        "label": None if option.recipe is None else option.recipe.label(),
        "allgather": known(option.allgather),
        "reduce_scatter": known(option.reduce_scatter),
        "alltoall": known(option.alltoall),
        "alltoall_proven_bound": None if bound is None else str(bound),
    }


def _total_json(plan: TracePlan, chosen: SwitchPlan) -> dict[str, Any]:
    return {
        "total_s": str(chosen.total),
        "total_s_float": float(chosen.total),
        "elapsed_s_float": float(chosen.total + plan.trace.compute_s),
        "working_s": str(chosen.working),
        "dark_s": str(chosen.switching),
        "hidden_s": str(chosen.hidden),
        "num_switches": chosen.num_switches,
    }


def _runs_json(plan: TracePlan, chosen: SwitchPlan) -> dict[str, Any]:
    runs = [
        {
            "first_job": run.first_step,
            "last_job": run.last_step,
            "design": plan.options[run.topology].name,
            "begin_s_float": float(run.begin),
            "dark_s": str(run.switching),
            "hidden_s": str(run.hidden),
            "working_s": str(run.working),
            "compute_s": str(run.waiting),
        }
        for run in chosen.runs()
    ]
    return {**_total_json(plan, chosen), "runs": runs}
