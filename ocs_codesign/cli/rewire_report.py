"""What ``ocs-codesign rewire`` prints and writes: facts, stages, JSON and cross-connects."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.cli.output import STDOUT, show_facts, show_table
from ocs_codesign.quantities import format_time

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray
    from rich.console import Console

    from ocs_codesign.fabric.relabelling import FreeRewiring
    from ocs_codesign.fabric.rewiring import Rewiring
    from ocs_codesign.fabric.stages import RewiringPlan, Stage

_SHOWN_STAGES = 40
_SHOWN_HOSTS = 64


@final
@dataclass(frozen=True, slots=True, eq=False)
class RewiringAnswer:
    """A rewiring in stages, and what it is compared with."""

    recipes: tuple[str, str]
    rewiring: Rewiring
    naive: Rewiring
    free: FreeRewiring | None
    fixed: Rewiring
    plan: RewiringPlan
    has_times: bool

    @property
    def fewest_changed(self) -> int:
        """Circuits that change at least, with the hosts fixed or not, as was asked."""
        return self.fixed.fewest_changed if self.free is None else self.free.fewest_changed

    def dead_time_s(self, time_s: Fraction) -> float | None:
        """A dead time, or None if switching times were not given."""
        return float(time_s) if self.has_times else None


def plan_csv(plan: RewiringPlan) -> str:
    """The cross-connects of all stages in their order, one a row."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("stage", "action", "plane", "cross_connect", "a_host", "b_host"))
    for number, stage in enumerate(plan.stages, 1):
        for action, circuits in (("delete", stage.deletes), ("create", stage.creates)):
            names = _names(plan, circuits)
            for name, (plane, a_host, b_host) in zip(names, circuits.tolist(), strict=True):
                rows.writerow((number, action, plane, name, a_host, b_host))
    return text.getvalue()


def _names(plan: RewiringPlan, circuits: NDArray[Any]) -> list[str]:
    from ocs_codesign.fabric.stages import cross_connect_name

    return [cross_connect_name(a, b, plan.port_model) for _, a, b in circuits.tolist()]


def rewiring_json(answer: RewiringAnswer) -> dict[str, Any]:
    """The JSON form of an answer."""
    rewiring, plan, free = answer.rewiring, answer.plan, answer.free
    return {
        "from": answer.recipes[0],
        "to": answer.recipes[1],
        "nodes": rewiring.planes.topology.num_nodes,
        "planes": len(rewiring.held),
        "port_model": rewiring.planes.port_model.value,
        "circuits": rewiring.planes.num_circuits,
        "kept": rewiring.num_kept,
        "changed": rewiring.num_changed,
        "torn_down": rewiring.num_torn_down,
        "fewest_changed": answer.fewest_changed,
        "is_optimal": rewiring.num_changed == answer.fewest_changed,
        "proof": rewiring.optimality.value if free is None else None,
        "changed_without_choice": answer.naive.num_changed,
        "changed_with_fixed_hosts": answer.fixed.num_changed,
        "host": None if free is None else free.host.tolist(),
        "service": plan.service.value,
        "hitless": plan.service.is_hitless,
        "dead_time_s": answer.dead_time_s(plan.total_dead_time_s),
        "stages": [_stage_json(answer, stage) for stage in plan.stages],
    }


def _stage_json(answer: RewiringAnswer, stage: Stage) -> dict[str, Any]:
    proof = stage.connectivity
    return {
        "planes": list(stage.planes),
        "deletes": _circuits_json(answer.plan, stage.deletes),
        "creates": _circuits_json(answer.plan, stage.creates),
        "circuits_up": len(stage.up),
        "connected": proof is not None,
        "root": None if proof is None else proof.root,
        "link_from": None if proof is None else proof.before.tolist(),
        "link_to": None if proof is None else proof.after.tolist(),
        "dead_time_s": answer.dead_time_s(stage.dead_time_s),
    }


def _circuits_json(plan: RewiringPlan, circuits: NDArray[Any]) -> list[dict[str, Any]]:
    names = _names(plan, circuits)
    planes = circuits[:, 0].tolist()
    return [
        {"plane": plane, "cross_connect": name} for plane, name in zip(planes, names, strict=True)
    ]


def show_rewiring(console: Console, answer: RewiringAnswer, out: str | None) -> None:
    """Print what changes, against what it is compared with, and the stages."""
    rewiring, plan, free = answer.rewiring, answer.plan, answer.free
    topology = rewiring.planes.topology
    show_facts(
        console,
        [
            ("from", answer.recipes[0]),
            ("to", answer.recipes[1]),
            (
                "nodes, planes",
                f"{topology.num_nodes}, {len(rewiring.held)} {rewiring.planes.port_model.value}",
            ),
            ("circuits kept", f"{rewiring.num_kept} of {rewiring.planes.num_circuits}"),
            ("circuits changed", f"{rewiring.num_changed}, {_proof_text(answer)}"),
            ("without a choice of planes", answer.naive.num_changed),
            ("with fixed hosts", None if free is None else answer.fixed.num_changed),
            ("hosts of nodes", None if free is None else _hosts_text(free.host.tolist())),
            ("stages", f"{len(plan.stages)}: {plan.service.value}"),
            (
                "dead time",
                format_time(float(plan.total_dead_time_s)) if answer.has_times else None,
            ),
            ("written to", None if out in {None, STDOUT} else out),
        ],
    )
    if plan.stages:
        console.print()
        _show_stages(console, answer)


def _proof_text(answer: RewiringAnswer) -> str:
    rewiring = answer.rewiring
    if rewiring.num_changed > answer.fewest_changed:
        return f"at least {answer.fewest_changed} are needed"
    if answer.free is not None:
        return "the fewest for any hosts"
    return f"the fewest: {rewiring.optimality.value}"


def _hosts_text(hosts: list[int]) -> str:
    shown = " ".join(map(str, hosts[:_SHOWN_HOSTS]))
    return shown if len(hosts) <= _SHOWN_HOSTS else f"{shown} ... (all with --json)"


def _show_stages(console: Console, answer: RewiringAnswer) -> None:
    rows = []
    for number, stage in enumerate(answer.plan.stages[:_SHOWN_STAGES], 1):
        rows.append(
            (
                str(number),
                " ".join(map(str, stage.planes)),
                str(len(stage.deletes)),
                str(len(stage.creates)),
                str(len(stage.up)),
                format_time(float(stage.dead_time_s)) if answer.has_times else "-",
                "yes" if stage.connectivity is not None else "no",
            )
        )
    left = len(answer.plan.stages) - len(rows)
    if left:
        rows.append(("...", "", "", "", "", "", f"{left} more stages"))
    columns = ("stage", "plane", "delete", "create", "stay up", "dead time", "connected")
    show_table(console, columns, rows, numbers=6)
