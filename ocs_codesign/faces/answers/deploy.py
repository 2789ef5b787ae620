"""What ``deploy`` answers: the configurations of a bundle, their schedules, and the plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.core.quantities import format_time
from ocs_codesign.fabric.bundle.write.bundle import standing_json
from ocs_codesign.fabric.bundle.write.tables import plan_summary
from ocs_codesign.fabric.deployments.work import Action
from ocs_codesign.fabric.light import light_paths
from ocs_codesign.faces.answers.bundles import SIZES, bundle_facts
from ocs_codesign.faces.answers.declared import made, records, table
from ocs_codesign.faces.answers.sections import Facts, Table, counted
from ocs_codesign.faces.answers.texts import cost_text, t_b_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ocs_codesign.fabric.bundle.write.bundle import BundlePlace
    from ocs_codesign.fabric.deployments.day_two import Redesign
    from ocs_codesign.fabric.deployments.deploy import DeployedConfiguration, Deployment
    from ocs_codesign.fabric.repairs.repair import Repair
    from ocs_codesign.fabric.repairs.splicing import SpliceChoice, SplicedConfiguration
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange
    from ocs_codesign.fabric.rewiring.stages import Stage
    from ocs_codesign.fabric.survival import Remainder, Survivability
    from ocs_codesign.faces.answers.sections import Section


def _plans(deployment: Deployment) -> list[dict[str, Any]]:
    """The plans without the certificates of stages, which the bundle has."""
    plans = [plan_summary(change) for change in deployment.changes]
    for stage in (stage for plan in plans for stage in plan["stages"]):
        del stage["certificate"]
    return plans


made(
    "deploy.deployment",
    fits=True,
    plans=_plans,
    sonic=lambda deployment: _has_sonic(deployment),
    **SIZES,
)


def _least_margin_db(made: DeployedConfiguration) -> float | None:
    margins = [path.margin_db for path in light_paths(made.configuration)]
    return float(min(margins)) if margins else None


made(
    "deployed_configuration",
    planes=lambda made: len(set(made.configuration.plane.tolist())),
    stages=lambda made: max(made.num_stages(), default=0),
    least_margin_db=_least_margin_db,
    survives_plane_loss=lambda made: made.plane_loss().stays_connected,
)


def _has_sonic(deployment: Deployment) -> bool:
    return all(switch.profile.port_model.has_b_side for switch in deployment.fabric.switches)


def deployment_sections(
    deployment: Deployment, manifest: dict[str, Any], place: BundlePlace
) -> Iterator[Section]:
    """Every configuration with its schedules, and the bundle."""
    answer = records()["deploy.deployment"].json(deployment, manifest, place)
    for told, deployed in zip(answer["configurations"], deployment.configurations, strict=True):
        through = "one switch" if told["stages"] == 1 else f"{told['stages']} switches"
        margin = told["least_margin_db"]
        yield Facts(
            ("configuration", told["name"]),
            ("recipe", told["recipe"]),
            ("nodes, degree", f"{told['nodes']}, {told['degree']}"),
            ("circuits", f"{told['circuits']} in {told['planes']} planes, each through {through}"),
            ("least margin", None if margin is None else f"{margin:g} dB below the loss budget"),
            *(
                (bounded.collective.name, f"{cost_text(bounded.design.cost)}, verified")
                for bounded in deployed.designs
            ),
        )
        yield ""
    if not answer["sonic"]:
        yield "No CONFIG_DB: SONiC joins side A with side B, and these switches have no sides."
    yield bundle_facts(answer)


# What day-two commands answer: the stages of a change, and what the bundle is afterwards.


INVENTED = "What if: no bundle was read, the embedding is invented for this question."
NOT_WRITTEN = "What if: nothing was written."


made(
    "deployed",
    standing=lambda deployment: standing_json(deployment),
    failed=lambda deployment: deployment.failures.components(),
    what_if=lambda _, place: place is None,
)


def deployed_sections(deployment: Deployment, place: BundlePlace | None) -> Iterator[Section]:
    """The same where people read it."""
    yield Facts(
        (deployment.standing, deployment.up),
        ("configurations", ", ".join(deployment.names)),
        ("failed", ", ".join(deployment.failures.components()) or None),
        ("bundle", None if place is None else place.directory),
        ("as one file", None if place is None else place.archive),
    )
    if place is None:
        yield NOT_WRITTEN
    elif deployment.standing == "planned":
        yield f"When the work is done: ocs-codesign rewire --bundle {place} --done"


def redesign_text(offered: Redesign) -> str:
    """The same as a sentence, with the option that does it."""
    degree = offered.configuration.topology.degree
    return (
        f"--redesign NAME brings up {offered.recipe!r} of degree {degree}, which fits the rest: "
        f"{offered.collective.name} in {cost_text(offered.cost)} on the bandwidth that is left; "
        f"{', '.join(offered.lost) or 'nothing'} would be torn down."
    )


def _steps(stage: Any, action: Action, change: ConfigurationChange, deployment: Deployment) -> Any:
    """The cross-connects that a stage deletes or creates, in the order of the work."""
    number = change.stages.index(stage) + 1
    steps = deployment.work.steps if deployment.work is not None else ()
    return [
        {"switch": step.switch, "cross_connect": step.id}
        for step in steps
        if (step.stage, step.action) == (number, action)
    ]


made(
    "change_stage",
    deletes=lambda stage, *beside: _steps(stage, Action.DELETE, *beside[:2]),
    creates=lambda stage, *beside: _steps(stage, Action.CREATE, *beside[:2]),
    connected=lambda stage: stage.connectivity is not None,
)
made(
    "deploy.change",
    change=lambda _, change: change,
    deployed=lambda deployment, _, place: records()["deployed"].json(deployment, place),
)


def stages_table(stages: Sequence[Stage], up: str, dead_time: Callable[[Stage], Any]) -> Table:
    """A row a stage of a change; ``up`` is what the column of circuits that are up is called."""
    return table(
        stages,
        f"stage; plane; delete:len; create:len; {up}=up:len; dead time | connected",
        stage=lambda stage: stages.index(stage) + 1,
        plane=lambda stage: " ".join(map(str, stage.planes)),
        dead_time=dead_time,
        connected=lambda stage: "no" if stage.connectivity is None else "yes",
    ).shortened("stages")


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
    if change.stages:
        yield stages_table(
            change.stages, "circuits up", lambda stage: format_time(float(stage.dead_time_s))
        )
        yield ""
    yield from deployed_sections(deployment, place)


# What ``survive`` answers: the worst loss of every kind, all losses, and the work of a repair.


INVENTED_FOR_LOSSES = "chosen for this question; --bundle DIR looks at those that are deployed"


def survivability_sections(survival: Survivability, deployed: bool) -> Iterator[Section]:
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
    yield Table(columns, rows, numbers=2, texts=3)


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


made("repair", repaired=True)


def repair_sections(repair: Repair) -> Iterator[Section]:
    """The nodes, strands and cross-connects that change."""
    also = ", ".join(other.name for other in repair.others)
    yield Facts(
        ("configuration", repair.configuration.name),
        ("nodes that move", len(repair.hosts)),
        ("strands to move", len(repair.moves)),
        ("idle, to unplug last", len(repair.idle) or None),
        ("cross-connects", f"{len(repair.removed)} taken down, {len(repair.made)} set up"),
        ("light", "followed: it makes the topology"),
        ("repaired along", also or None),
    )
    model = repair.configuration.cabling.fabric.port_model
    down, up = (
        [(each.switch, model.joined(each.a_port, each.b_port)) for each in joined]
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
