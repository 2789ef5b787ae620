"""What ``deploy`` answers: the configurations of a bundle, their schedules, and the plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts
from ocs_codesign.answers.texts import cost_json, cost_text
from ocs_codesign.bundle.write.plans import plan_summary
from ocs_codesign.fabric.light_budget import light_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.bundle.write.place import BundlePlace
    from ocs_codesign.fabric.deployments.deployment import DeployedConfiguration, Deployment


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
