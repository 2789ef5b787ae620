"""What ``rewire`` answers: the circuits that change, against what they are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.core.quantities import format_time
from ocs_codesign.fabric.bundle.write.text import csv_bytes
from ocs_codesign.faces.answers.declared import made, records
from ocs_codesign.faces.answers.deploy import stages_table
from ocs_codesign.faces.answers.sections import Facts, Table
from ocs_codesign.faces.answers.texts import cost_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.fabric.bundle.check.bundle import BundleVerdict
    from ocs_codesign.fabric.bundle.check.claims import ReplayedSchedule
    from ocs_codesign.fabric.rewiring.hosts import FreeRewiring
    from ocs_codesign.fabric.rewiring.minimum import Rewiring
    from ocs_codesign.fabric.rewiring.stages import RewiringPlan
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
    for row in circuits.tolist():
        yield row, plan.port_model.joined(row[1] + 1, row[2] + 1)


made(
    "rewire.rewiring",
    **{"from": lambda answer: answer.recipes[0], "to": lambda answer: answer.recipes[1]},
    is_optimal=lambda answer: answer.rewiring.num_changed == answer.fewest_changed,
    proof=lambda answer: answer.rewiring.optimality.value if answer.free is None else None,
    dead_time_s=lambda answer: float(answer.plan.dead_time_s) if answer.has_times else None,
)
made(
    "rewiring_stage",
    deletes=lambda stage, answer: _cross_connects(answer.plan, stage.delete),
    creates=lambda stage, answer: _cross_connects(answer.plan, stage.create),
    connected=lambda stage: stage.connectivity is not None,
    dead_time_s=lambda stage, answer: float(stage.dead_time_s) if answer.has_times else None,
)


def _cross_connects(plan: RewiringPlan, circuits: NDArray[Any]) -> list[dict[str, Any]]:
    return [{"plane": row[0], "cross_connect": name} for row, name in _named(plan, circuits)]


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
        yield stages_table(
            answer.plan.stages, "stay up", lambda stage: answer.dead_time(stage.dead_time_s)
        )


def _proof_text(answer: RewiringAnswer) -> str:
    if answer.rewiring.num_changed > answer.fewest_changed:
        return f"at least {answer.fewest_changed} are needed"
    if answer.free is not None:
        return "the fewest for any hosts"
    return f"the fewest: {answer.fixed.optimality.value}"


def _hosts_text(hosts: list[int]) -> str:
    shown = " ".join(map(str, hosts[:_SHOWN_HOSTS]))
    return shown if len(hosts) <= _SHOWN_HOSTS else f"{shown} ... (all with --json)"


# A checked bundle as an answer: what the light makes of it, and everything that is wrong.


made(
    "checked_configuration",
    schedules=lambda found, verdict: {
        each.collective: records()["cost"].json(each.cost)
        for each in _schedules(verdict, found.name)
    },
)


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
            yield f"  and {left:,} more, see --top"
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
