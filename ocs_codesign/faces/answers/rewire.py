"""What ``rewire`` answers: the circuits that change, against what they are compared with."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.quantities import format_time
from ocs_codesign.fabric.bundle.write.text import csv_bytes
from ocs_codesign.fabric.wiring import cross_connect_name
from ocs_codesign.faces.answers.sections import Facts, Table
from ocs_codesign.faces.answers.texts import cost_json, cost_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.fabric.bundle.check.bundle import BundleVerdict
    from ocs_codesign.fabric.bundle.check.circuits import Port
    from ocs_codesign.fabric.bundle.check.claims import ReplayedSchedule
    from ocs_codesign.fabric.bundle.check.files import Comparison
    from ocs_codesign.fabric.rewiring.hosts import FreeRewiring
    from ocs_codesign.fabric.rewiring.minimum import Rewiring
    from ocs_codesign.fabric.rewiring.stages import RewiringPlan, Stage
    from ocs_codesign.faces.answers.sections import Section


_SHOWN_HOSTS = 64


@final
@dataclass(frozen=True, slots=True, eq=False)
class RewiringAnswer:
    """A rewiring in stages, and what it is compared with.

    ``fixed`` has node v on host v, ``free`` chooses the hosts, if that was asked for; planes as
    they come need ``changed_without_choice`` circuits.
    """

    recipes: tuple[str, str]
    fixed: Rewiring
    free: FreeRewiring | None
    changed_without_choice: int
    plan: RewiringPlan
    has_times: bool

    @property
    def rewiring(self) -> Rewiring:
        """The one that was asked for."""
        return self.fixed if self.free is None else self.free.rewiring

    @property
    def fewest_changed(self) -> int:
        """Circuits that change at least, with the hosts fixed or not, as was asked."""
        return self.fixed.fewest_changed if self.free is None else self.free.fewest_changed

    def dead_time(self, time_s: Fraction) -> str | None:
        """A dead time as text, or None if switching times were not given."""
        return format_time(float(time_s)) if self.has_times else None


def plan_csv(plan: RewiringPlan) -> bytes:
    """The cross-connects of all stages in their order, one a row."""
    rows = [
        (number, action, plane, name, a_host, b_host)
        for number, stage in enumerate(plan.stages, 1)
        for action, circuits in (("delete", stage.delete), ("create", stage.create))
        for (plane, a_host, b_host), name in _named(plan, circuits)
    ]
    return csv_bytes(("stage", "action", "plane", "cross_connect", "a_host", "b_host"), rows)


def _named(plan: RewiringPlan, circuits: NDArray[Any]) -> Iterator[tuple[list[int], str]]:
    """Circuits with their cross-connects, where the ports of a plane are the nodes in order."""
    has_b_side = plan.port_model.has_b_side
    for row in circuits.tolist():
        yield row, cross_connect_name(row[1] + 1, row[2] + 1, has_b_side=has_b_side)


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
        "changed_without_choice": answer.changed_without_choice,
        "changed_with_fixed_hosts": answer.fixed.num_changed,
        "host": None if free is None else free.host.tolist(),
        "service": plan.service.value,
        "hitless": plan.service.is_hitless,
        "dead_time_s": float(plan.dead_time_s) if answer.has_times else None,
        "stages": [_stage_json(answer, stage) for stage in plan.stages],
    }


def _stage_json(answer: RewiringAnswer, stage: Stage) -> dict[str, Any]:
    proof = stage.connectivity
    deletes, creates = (
        [{"plane": row[0], "cross_connect": name} for row, name in _named(answer.plan, circuits)]
        for circuits in (stage.delete, stage.create)
    )
    return {
        "planes": list(stage.planes),
        "deletes": deletes,
        "creates": creates,
        "circuits_up": len(stage.up),
        "connected": proof is not None,
        "root": None if proof is None else proof.root,
        "link_from": None if proof is None else proof.before.tolist(),
        "link_to": None if proof is None else proof.after.tolist(),
        "dead_time_s": float(stage.dead_time_s) if answer.has_times else None,
    }


def rewiring_sections(answer: RewiringAnswer, written_to: str | None) -> Iterator[Section]:
    """What changes, against what it is compared with, and the stages."""
    rewiring, plan, free = answer.rewiring, answer.plan, answer.free
    planes = rewiring.planes
    yield Facts(
        ("from", answer.recipes[0]),
        ("to", answer.recipes[1]),
        (
            "nodes, planes",
            f"{planes.topology.num_nodes}, {len(rewiring.held)} {planes.port_model.value}",
        ),
        ("circuits kept", f"{rewiring.num_kept} of {planes.num_circuits}"),
        ("circuits changed", f"{rewiring.num_changed}, {_proof_text(answer)}"),
        ("without a choice of planes", answer.changed_without_choice),
        ("with fixed hosts", None if free is None else answer.fixed.num_changed),
        ("hosts of nodes", None if free is None else _hosts_text(free.host.tolist())),
        ("stages", f"{len(plan.stages)}: {plan.service.value}"),
        ("dead time", answer.dead_time(plan.dead_time_s)),
        ("written to", written_to),
    )
    if plan.stages:
        yield ""
        yield _stages_table(answer)


def _proof_text(answer: RewiringAnswer) -> str:
    if answer.rewiring.num_changed > answer.fewest_changed:
        return f"at least {answer.fewest_changed} are needed"
    if answer.free is not None:
        return "the fewest for any hosts"
    return f"the fewest: {answer.fixed.optimality.value}"


def _hosts_text(hosts: list[int]) -> str:
    shown = " ".join(map(str, hosts[:_SHOWN_HOSTS]))
    return shown if len(hosts) <= _SHOWN_HOSTS else f"{shown} ... (all with --json)"


def _stages_table(answer: RewiringAnswer) -> Table:
    columns = ("stage", "plane", "delete", "create", "stay up", "dead time", "connected")
    rows = [
        (
            str(number),
            " ".join(map(str, stage.planes)),
            str(len(stage.delete)),
            str(len(stage.create)),
            str(len(stage.up)),
            answer.dead_time(stage.dead_time_s) or "-",
            "no" if stage.connectivity is None else "yes",
        )
        for number, stage in enumerate(answer.plan.stages, 1)
    ]
    return Table(columns, rows, numbers=6).shortened("stages")


# A checked bundle as an answer: what the light makes of it, and everything that is wrong.


def verify_bundle_json(verdict: BundleVerdict) -> dict[str, Any]:
    """All that was found of a bundle."""
    return {
        "ok": verdict.ok,
        "name": verdict.name,
        "configurations": [
            {
                "name": one.name,
                "nodes": one.topology.num_nodes,
                "links": one.topology.num_links,
                "degree": one.topology.degree,
                "circuits": len(one.circuits),
                "schedules": {
                    schedule.collective: cost_json(schedule.cost)
                    for schedule in _schedules(verdict, one.name)
                },
            }
            for one in verdict.configurations
        ],
        "observed": [_comparison_json(comparison) for comparison in verdict.observed],
        "num_findings": verdict.num_findings,
        "findings": [asdict(finding) for finding in verdict.findings],
    }


def verify_bundle_sections(verdict: BundleVerdict) -> Iterator[Section]:
    """The same where people read it."""
    if verdict.ok:
        yield "Valid: the light makes what the bundle claims."
    else:
        plural = "s" * (verdict.num_findings != 1)
        yield f"Not valid: {verdict.num_findings:,} finding{plural}."
        yield from (f"  {finding}" for finding in verdict.findings)
        left = verdict.num_findings - len(verdict.findings)
        if left:
            yield f"  and {left:,} more, see --limit"
    yield Facts(("bundle", verdict.name))
    rows = []
    for one in verdict.configurations:
        replayed = _schedules(verdict, one.name)
        schedules = "; ".join(f"{each.collective}: {cost_text(each.cost)}" for each in replayed)
        counts = (one.topology.num_nodes, one.topology.num_links, len(one.circuits))
        rows.append((*map(str, counts), one.name, schedules))
    if rows:
        columns = ("nodes", "links", "circuits", "configuration", "schedules replayed")
        yield Table(columns, rows, numbers=3, texts=1)
    for comparison in verdict.observed:
        wrong = len(comparison.differences)
        text = "as observed" if not wrong else f"{wrong} differences from what was observed"
        yield f"{comparison.configuration}: {comparison.num_links} links, {text}"


def _schedules(verdict: BundleVerdict, configuration: str) -> list[ReplayedSchedule]:
    return [one for one in verdict.schedules if one.configuration == configuration]


def _comparison_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "configuration": comparison.configuration,
        "links": comparison.num_links,
        "num_differences": len(comparison.differences),
        "differences": [
            {
                "kind": difference.kind,
                "line": difference.line,
                "local": _port_json(difference.local),
                "expected": _port_json(difference.expected),
                "observed": _port_json(difference.observed),
            }
            for difference in comparison.differences
        ],
    }


def _port_json(port: Port | None) -> dict[str, str] | None:
    return None if port is None else {"host": port.device, "port": port.name}
