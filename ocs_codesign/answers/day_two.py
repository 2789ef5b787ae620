"""What day-two commands answer: the stages of a change, and what the bundle is afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts, Table, counted
from ocs_codesign.answers.texts import cost_json, cost_text
from ocs_codesign.fabric.deployments.work import Action
from ocs_codesign.quantities import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.bundle.write.place import BundlePlace
    from ocs_codesign.fabric.deployments.deployment import Deployment
    from ocs_codesign.fabric.deployments.redesign import Redesign
    from ocs_codesign.fabric.rewiring.configurations import ConfigurationChange

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
