"""What ``deploy`` answers: the configurations of a bundle, their schedules, and the plans."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.quantities import format_time
from ocs_codesign.fabric.bundle.write.tables import plan_summary
from ocs_codesign.fabric.deployments.work import Action
from ocs_codesign.fabric.light import light_paths
from ocs_codesign.fabric.wiring import cross_connect_name
from ocs_codesign.faces.answers.sections import Facts, Table, counted
from ocs_codesign.faces.answers.texts import cost_json, cost_text, t_b_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.fabric.bundle.write.bundle import BundlePlace
    from ocs_codesign.fabric.deployments.day_two import Redesign
    from ocs_codesign.fabric.deployments.deploy import DeployedConfiguration, Deployment
    from ocs_codesign.fabric.repairs.repair import Repair
    from ocs_codesign.fabric.repairs.splicing import SpliceChoice, SplicedConfiguration
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.survival import Remainder, Survivability
    from ocs_codesign.faces.answers.sections import Section


def deployment_json(
    deployment: Deployment, manifest: dict[str, Any], place: BundlePlace
) -> dict[str, Any]:
    """The JSON form, without the certificates of stages, which the bundle has."""
    plans = [plan_summary(change) for change in deployment.changes]
    for plan in plans:
        for stage in plan["stages"]:
            del stage["certificate"]
    return {
        "fits": True,
        "fabric": deployment.fabric.name,
        "configurations": [_configuration_json(made) for made in deployment.configurations],
        "plans": plans,
        "sonic": _has_sonic(deployment),
        "num_files": len(manifest["files"]) + 1,
        "num_bytes": sum(file["bytes"] for file in manifest["files"].values()),
        "out": place.directory,
        "archive": place.archive,
    }


def _has_sonic(deployment: Deployment) -> bool:
    return all(switch.profile.port_model.has_b_side for switch in deployment.fabric.switches)


def _configuration_json(made: DeployedConfiguration) -> dict[str, Any]:
    planes = sorted(set(made.configuration.plane.tolist()))
    margins = [path.margin_db for path in light_paths(made.configuration)]
    return {
        "name": made.name,
        "recipe": repr(made.recipe),
        "nodes": made.topology.num_nodes,
        "degree": made.topology.degree,
        "circuits": made.configuration.num_circuits,
        "planes": len(planes),
        "stages": max(made.num_stages(), default=0),
        "least_margin_db": float(min(margins)) if margins else None,
        "survives_plane_loss": made.plane_loss().stays_connected,
        "schedules": [
            {
                "collective": bounded.collective.name,
                "cost": cost_json(bounded.design.cost),
                "bound": cost_json(bounded.bound),
                "schedule": bounded.design.maker,
            }
            for bounded in made.designs
        ],
    }


def deployment_sections(answer: dict[str, Any], deployment: Deployment) -> Iterator[Section]:
    """Every configuration with its schedules, and the bundle."""
    for fields, made in zip(answer["configurations"], deployment.configurations, strict=True):
        through = "one switch" if fields["stages"] == 1 else f"{fields['stages']} switches"
        margin = fields["least_margin_db"]
        yield Facts(
            ("configuration", fields["name"]),
            ("recipe", fields["recipe"]),
            ("nodes, degree", f"{fields['nodes']}, {fields['degree']}"),
            (
                "circuits",
                f"{fields['circuits']} in {fields['planes']} planes, each through {through}",
            ),
            ("least margin", None if margin is None else f"{margin:g} dB below the loss budget"),
            *(
                (bounded.collective.name, f"{cost_text(bounded.design.cost)}, verified")
                for bounded in made.designs
            ),
        )
        yield ""
    if not answer["sonic"]:
        yield "No CONFIG_DB: SONiC joins side A with side B, and these switches have no sides."
    size = f"{answer['num_bytes'] / 1e6:.3g} MB in {answer['num_files']} files"
    bundle = size if answer["out"] is None else f"{answer['out']}, {size}"
    yield Facts(
        ("fabric", answer["fabric"]), ("bundle", bundle), ("as one file", answer["archive"])
    )


# What day-two commands answer: the stages of a change, and what the bundle is afterwards.


INVENTED = "What if: no bundle was read, the embedding is invented for this question."
NOT_WRITTEN = "What if: nothing was written."


def deployed_json(deployment: Deployment, place: BundlePlace | None) -> dict[str, Any]:
    """What a bundle is after the work, and where it was written (null for a question)."""
    return {
        "up": deployment.up,
        "configurations": list(deployment.names),
        "failed": list(deployment.failures.components()),
        "what_if": place is None,
        "out": None if place is None else place.directory,
        "archive": None if place is None else place.archive,
    }


def deployed_sections(deployment: Deployment, place: BundlePlace | None) -> Iterator[Section]:
    """The same where people read it."""
    yield Facts(
        ("up", deployment.up),
        ("configurations", ", ".join(deployment.names)),
        ("failed", ", ".join(deployment.failures.components()) or None),
        ("bundle", None if place is None else place.directory),
        ("as one file", None if place is None else place.archive),
    )
    if place is None:
        yield NOT_WRITTEN


def redesign_json(offered: Redesign) -> dict[str, Any]:
    """The JSON form of what could be brought up instead."""
    return {
        "recipe": repr(offered.recipe),
        "degree": offered.configuration.topology.degree,
        "collective": offered.collective.name,
        "cost": cost_json(offered.cost),
        "torn_down": list(offered.lost),
    }


def redesign_text(offered: Redesign) -> str:
    """The same as a sentence, with the option that does it."""
    degree = offered.configuration.topology.degree
    return (
        f"--redesign NAME brings up {offered.recipe!r} of degree {degree}, which fits the rest: "
        f"{offered.collective.name} in {cost_text(offered.cost)} on the bandwidth that is left; "
        f"{', '.join(offered.lost) or 'nothing'} would be torn down."
    )


def change_json(
    deployment: Deployment, change: ConfigurationChange, place: BundlePlace | None
) -> dict[str, Any]:
    """The stages of a change of configuration, with the cross-connects in their order."""
    steps = deployment.work.steps if deployment.work is not None else ()
    return {
        "from": change.before.name,
        "to": change.after.name,
        "kept": change.num_kept,
        "deleted": change.num_deleted,
        "created": change.num_created,
        "service": change.service.value,
        "hitless": change.service.is_hitless,
        "dead_time_s": float(change.dead_time_s),
        "stages": [
            {
                "planes": list(stage.planes),
                "deletes": [
                    {"switch": step.switch, "cross_connect": step.id}
                    for step in steps
                    if (step.stage, step.action) == (number, Action.DELETE)
                ],
                "creates": [
                    {"switch": step.switch, "cross_connect": step.id}
                    for step in steps
                    if (step.stage, step.action) == (number, Action.CREATE)
                ],
                "circuits_up": len(stage.up),
                "connected": stage.connectivity is not None,
                "dead_time_s": float(stage.dead_time_s),
            }
            for number, stage in enumerate(change.stages, 1)
        ],
        **deployed_json(deployment, place),
    }


def change_sections(
    deployment: Deployment, change: ConfigurationChange, place: BundlePlace | None
) -> Iterator[Section]:
    """What changes, and the stages."""
    yield Facts(
        ("from", change.before.name),
        ("to", change.after.name),
        (
            "cross-connects",
            f"{change.num_kept} kept, {change.num_deleted} deleted, {change.num_created} created",
        ),
        ("stages", f"{counted(len(change.stages), 'stage')}: {change.service.value}"),
        ("dead time", format_time(float(change.dead_time_s))),
    )
    yield ""
    columns = ("stage", "plane", "delete", "create", "circuits up", "dead time", "connected")
    rows = [
        (
            *(str(number), " ".join(map(str, stage.planes))),
            *map(str, (len(stage.delete), len(stage.create), len(stage.up))),
            format_time(float(stage.dead_time_s)),
            "no" if stage.connectivity is None else "yes",
        )
        for number, stage in enumerate(change.stages, 1)
    ]
    if rows:
        yield Table(columns, rows, numbers=6).shortened("stages")
        yield ""
    yield from deployed_sections(deployment, place)


# What ``survive`` answers: the worst loss of every kind, all losses, and the work of a repair.


INVENTED_FOR_LOSSES = "chosen for this question; --bundle DIR looks at those that are deployed"


def survivability_json(survival: Survivability) -> dict[str, Any]:
    """The JSON form of all losses and of the worst of every kind."""
    return {
        "configuration": survival.configuration.name,
        "fabric": survival.configuration.cabling.fabric.name,
        "collective": survival.collective.name,
        "unit": "M/B, B the egress of a node of the intact topology",
        "intact": _remainder_json(survival.intact),
        "worst": [
            {
                "kind": worst.loss.kind.value,
                "losses": worst.num_losses,
                "connected": worst.num_connected,
                "name": worst.loss.name,
                "alike": worst.num_alike,
                "left": _remainder_json(worst.loss.left),
            }
            for worst in survival.worst()
        ],
        "losses": [
            {
                "kind": loss.kind.value,
                "name": loss.name,
                "lost_links": loss.num_lost_links,
                **_remainder_json(loss.left),
            }
            for loss in survival.losses
        ],
        "measured": survival.num_measured,
    }


def _remainder_json(left: Remainder) -> dict[str, Any]:
    alltoall = left.alltoall
    return {
        "nodes": left.num_nodes,
        "links": left.num_links,
        "connected": left.is_connected,
        "components": left.num_components,
        "largest_component": left.largest_component,
        "diameter": left.diameter,
        "cost": None if left.cost is None else cost_json(left.cost),
        "alltoall": None
        if alltoall is None
        else {
            "time": None if alltoall.time is None else str(alltoall.time),
            "bound": str(alltoall.bound),
            "optimal": alltoall.is_optimal,
        },
    }


def survivability_sections(survival: Survivability, *, deployed: bool) -> Iterator[Section]:
    """The topology as it is, and the worst loss of every kind."""
    intact = survival.intact
    measured = f"{survival.num_measured} measured, each other equal to one"
    yield Facts(
        ("fabric", survival.configuration.cabling.fabric.name),
        (
            "circuits",
            f"those of {survival.configuration.name}" if deployed else INVENTED_FOR_LOSSES,
        ),
        ("nodes, links", f"{intact.num_nodes}, {intact.num_links}"),
        (f"{survival.collective.name}, intact", _cost(intact)),
        ("alltoall, intact", _alltoall(intact)),
        ("losses", f"{len(survival.losses)}, {measured}"),
    )
    yield ""
    columns = ("losses", "connected", "kind", "components", "diameter", "cost", "alltoall", "worst")
    rows = []
    for worst in survival.worst():
        left = worst.loss.left
        alike = f" and {worst.num_alike - 1} alike" if worst.num_alike > 1 else ""
        rows.append(
            (
                str(worst.num_losses),
                str(worst.num_connected),
                worst.loss.kind.value,
                f"{left.num_components}, largest {left.largest_component}",
                "-" if left.diameter is None else str(left.diameter),
                _cost(left),
                _least_alltoall(left),
                f"{worst.loss.name}{alike}",
            )
        )
    yield Table(columns, rows, numbers=2, texts=1)


def _cost(left: Remainder) -> str:
    return "-" if left.cost is None else cost_text(left.cost)


def _alltoall(left: Remainder) -> str:
    if left.alltoall is None:
        return "-"
    if left.alltoall.time is None:
        return f"at least {t_b_text(left.alltoall.bound)} (bound by hops)"
    if left.alltoall.is_optimal:
        return t_b_text(left.alltoall.time)
    return f"{t_b_text(left.alltoall.time)}, at least {t_b_text(left.alltoall.bound)}"


def _least_alltoall(left: Remainder) -> str:
    """What is proven of the all-to-all: its time where that is the bound."""
    if left.alltoall is None:
        return "-"
    at_least = "" if left.alltoall.is_optimal else "at least "
    return f"{at_least}{float(left.alltoall.bound):.6g}"


def repair_json(repair: Repair) -> dict[str, Any]:
    """The JSON form of a repair: hosts, strands and cross-connects in the order of the work."""
    return {
        "repaired": True,
        "configuration": repair.configuration.name,
        "hosts": [asdict(host) for host in repair.hosts],
        "removed": [asdict(removed) for removed in repair.removed],
        "moves": [
            {
                "strand": move.what,
                "cable": move.cable,
                "before": None if move.before is None else str(move.before),
                "after": None if move.after is None else str(move.after),
            }
            for move in repair.moves
        ],
        "made": [asdict(made) for made in repair.made],
    }


def repair_sections(repair: Repair) -> Iterator[Section]:
    """The nodes, strands and cross-connects that change."""
    also = ", ".join(other.name for other in repair.others)
    yield Facts(
        ("configuration", repair.configuration.name),
        ("nodes that move", len(repair.hosts)),
        ("strands to move", len(repair.moves)),
        ("cross-connects", f"{len(repair.removed)} taken down, {len(repair.made)} set up"),
        ("light", "followed: it makes the topology"),
        ("repaired along", also or None),
    )
    has_b_side = repair.configuration.cabling.fabric.port_model(0).has_b_side
    down, up = (
        [
            (each.switch, cross_connect_name(each.a_port, each.b_port, has_b_side=has_b_side))
            for each in joined
        ]
        for joined in (repair.removed, repair.made)
    )
    rows = [
        *(("node", str(host.node), host.before, host.after) for host in repair.hosts),
        *(("take down", switch, name, "-") for switch, name in down),
        *(
            ("move", f"{move.cable} {move.what}", str(move.before or "-"), str(move.after or "-"))
            for move in repair.moves
        ),
        *(("set up", switch, "-", name) for switch, name in up),
    ]
    if rows:
        yield ""
        yield Table(("do", "what", "before", "after"), rows)


# What a repair without spares answers: costs before and after, what is proven, and the ports.


_COUNTED = 10**9


def choice_json(choice: SpliceChoice) -> dict[str, Any]:
    """The JSON form of a way to join the ends of lost nodes, next to what it is compared with."""
    splices = choice.splices
    return {
        "lost_nodes": list(splices.ends.gone),
        "joined": list(choice.way.joined),
        "collective": splices.collective.name,
        "unit": "M/B, B the egress of a node",
        "before": cost_json(choice.before),
        "after": cost_json(choice.cost),
        "nothing_joined": None if choice.holes is None else cost_json(choice.holes),
        "bound": cost_json(splices.bound),
        "frontier": [cost_json(way.cost) for way in splices.found],
        "wasted_links": choice.way.num_wasted,
        "ways": splices.num_possible,
        "ways_scored": splices.num_scored,
        "optimal": splices.is_optimal,
        "seed": splices.seed,
    }


def splice_json(spliced: SplicedConfiguration) -> dict[str, Any]:
    """The same on a fabric, with the ports that change."""
    return {
        "configuration": spliced.configuration.name,
        "where": spliced.where.value,
        "nodes": spliced.configuration.topology.num_nodes,
        **choice_json(spliced.choice),
        "cross_connects_removed": spliced.num_removed,
        "cross_connects_made": spliced.num_made,
        "ports_changed": spliced.num_ports,
    }


def choice_facts(choice: SpliceChoice) -> tuple[tuple[str, object], ...]:
    """Costs before, after and if nothing is joined, and how far the search went."""
    splices, name = choice.splices, choice.splices.collective.name
    holes = "nodes are cut off" if choice.holes is None else cost_text(choice.holes)
    wasted = choice.way.num_wasted
    return (
        (f"{name} before", cost_text(choice.before)),
        (f"{name} after", cost_text(choice.cost)),
        ("if nothing is joined", holes),
        ("no topology beats", cost_text(splices.bound)),
        ("found", _proof_text(choice)),
        ("loops, parallel links", wasted or None),
    )


def splice_sections(
    spliced: SplicedConfiguration, hosts: Sequence[str], torn_down: Sequence[tuple[str, str]] = ()
) -> Iterator[Section]:
    """What is left, what it costs, and what changes."""
    yield Facts(
        ("configuration", spliced.configuration.name),
        ("goes on without", ", ".join(hosts)),
        ("nodes left", spliced.configuration.topology.num_nodes),
        *choice_facts(spliced.choice),
        ("joined", f"{spliced.where.value}, light followed: it makes the topology"),
        ("cross-connects", f"{spliced.num_removed} taken down, {spliced.num_made} set up"),
        ("ports that change", spliced.num_ports),
    )
    for name, why in torn_down:
        yield f"Configuration {name} is torn down: {why}."


def splice_text(spliced: SplicedConfiguration, hosts: Sequence[str]) -> str:
    """An offer, in a sentence, with the option that does it."""
    return (
        f"Without spares: --splice {spliced.where.value} goes on without {', '.join(hosts)} on "
        f"{spliced.configuration.topology.num_nodes} hosts: "
        f"{spliced.choice.splices.collective.name} in {cost_text(spliced.choice.cost)} "
        f"({_proof_text(spliced.choice)}); {spliced.num_ports} ports change."
    )


def _proof_text(choice: SpliceChoice) -> str:
    splices = choice.splices
    if splices.is_exhaustive:
        first = choice.way is splices.found[0]
        only = splices.num_possible == 1
        if only:
            return "the only way to join the ends"
        return f"the {'best' if first else 'best that fits'} of all {splices.num_possible} ways"
    if splices.is_optimal:
        return "no topology has a smaller t_b"
    many = splices.num_possible
    of = str(many) if many < _COUNTED else f"{many:.2e}" if many < 10**300 else "very many"
    scored = f"{splices.num_scored} of {of} ways were scored"
    return f"best found, by search from seed {splices.seed}: {scored}"
