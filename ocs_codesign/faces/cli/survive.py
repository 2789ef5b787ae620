"""``ocs-codesign survive``: what single losses leave of a recipe on a fabric, and its repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.progress import tell_phase
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import OptionGroup, argument, command, group, option
from ocs_codesign.faces.cli.deployed import (
    COMPONENT,
    SCORED_FOR_AN_OFFER,
    archive_option,
    asked_place,
    bundle_option,
    check_asked,
    components,
    offered_splice,
    read,
    refusals,
    splice_option,
    spliced_bundle,
    spliced_question,
    what_if_option,
    write,
)
from ocs_codesign.faces.cli.output import Answer, answered, refused, told
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.fabric.bundle.write.bundle import BundlePlace
    from ocs_codesign.fabric.deployments.deploy import Deployment, Failures
    from ocs_codesign.fabric.infeasible import InfeasibleError
    from ocs_codesign.fabric.repairs.splicing import SplicedConfiguration
    from ocs_codesign.fabric.wiring import Configuration


# Spelled out, since importing ocs_codesign.fabric for a help text would take too long.
KINDS = ("plane", "switch", "link", "host")


class SurviveOptions(OptionGroup):
    """What is lost of what, and what is to be made of the rest."""

    recipe: str | None = argument("recipe", required=False)
    fabric_path: str | None = option(
        "--fabric",
        type=opt.INPUT,
        metavar="FILE",
        help="The fabric file, for a RECIPE; - is standard input.",
    )
    bundle: str | None = bundle_option
    what_if: bool = what_if_option
    kinds: str | None = option(
        "--lost", metavar="LIST", help=f"Losses to look at, of {','.join(KINDS)} (default: all)."
    )
    collective: str = opt.collective_choice(*opt.GATHERING, help="What the steps and t_b are of.")
    prefer: str = opt.prefer_option
    lost: tuple[str, ...] = option(
        "--repair",
        metavar="COMPONENT",
        multiple=True,
        help=f"Repair the loss of {COMPONENT}; repeat it.",
    )
    mended: tuple[str, ...] = option(
        "--restore", metavar="COMPONENT", multiple=True, help="It works again, as a spare."
    )
    redesign: str | None = option(
        "--redesign",
        metavar="NAME",
        help="Bring up, as NAME, the best stored design that fits what lost planes or switches "
        "leave.",
    )
    where: str | None = splice_option
    seed: int | None = option(
        "--seed", type=click.IntRange(0), help="Seed of --splice where not all ways are tried (0)."
    )
    out: str | None = option(
        "--out",
        type=opt.DIRECTORY,
        metavar="DIR",
        help="Where to put the repaired bundle (default: that of --bundle).",
    )
    archive_path: str | None = archive_option


@command()
def survive(given: SurviveOptions = group(SurviveOptions)) -> Answer:
    """Lose every plane, switch, circuit and host of what is up in a bundle, one at a time.

    Of a RECIPE on a --fabric, on an embedding that is chosen for it, likewise. Nothing is rewired:
    BFB is generated anew on what is left, and its exact cost is shown in units of M/B, with B the
    egress of a node before the loss.

    With --repair, all that is named is lost at once, and the configurations of the bundle are made
    again with spare hosts, ports and planes, from the cables and cross-connects that are there:
    which strands move and which cross-connects change. The bundle becomes what it is afterwards.
    Where a plane dies and no other is free, a design of fewer ports is offered: --redesign.
    Where hosts die, going on without them is offered: --splice joins the circuits into them with
    those out of them, in the cheapest way by exact cost, and needs no spares.
    Exit code 1 if a loss of a kind that was looked at disconnects nodes, or if it does not fit or
    cannot be repaired.

    \b
    Example:
      ocs-codesign fabric example --nodes 16 --planes 4 > fabric.yaml
      ocs-codesign survive 'GeneralizedKautz(4, 16)' --fabric fabric.yaml --lost plane
      ocs-codesign survive 'BiRing(4, 16)' --fabric fabric.yaml --what-if \\
          --repair host:host03 --splice anywhere
    """
    if (given.recipe is None) == (given.bundle is None):
        raise click.UsageError("give --bundle DIR or ZIP, or a RECIPE and its --fabric FILE")
    if (given.recipe is None) == (given.fabric_path is not None):
        raise click.UsageError("--fabric FILE is for a RECIPE, and a RECIPE needs it")
    if (given.lost or given.mended) and given.kinds is not None:
        raise click.UsageError("--lost is for single losses: with --repair, name what is lost")
    if given.lost or given.mended:
        check_asked(given.bundle, given.what_if, ())
    elif given.out is not None or given.archive_path is not None:
        option = "--archive" if given.out is None else "--out"
        raise click.UsageError(f"{option} is for a repaired bundle: give --repair")
    if given.mended and (given.lost or given.bundle is None):
        raise click.UsageError("--restore is for a --bundle, and apart from --repair")
    if given.redesign is not None and (not given.lost or given.bundle is None):
        raise click.UsageError("--redesign is for a --bundle and what --repair names")
    if given.where is not None and (not given.lost or given.redesign is not None):
        raise click.UsageError("--splice is for hosts that --repair names, without --redesign")
    if given.seed is not None and given.where is None:
        raise click.UsageError("--seed is for the search of --splice")
    from ocs_codesign.fabric.deployments.deploy import known_failures

    wanted = _kinds(given.kinds)
    with progress("Reading files"), refusals("repaired"):
        if given.bundle is not None and (given.lost or given.mended):
            place = asked_place(given.bundle, given.out, given.archive_path, what_if=given.what_if)
            deployment = read(given.bundle)
            failed = components(given.lost or given.mended, deployment)
            if given.where is not None:
                return spliced_bundle(deployment, failed, given.where, place, given.seed or 0)
            if given.redesign is not None:
                return _redesigned(deployment, failed, given.redesign, place)
            return _changed(deployment, failed, bool(given.mended), place)
        if given.bundle is not None:
            deployment = read(given.bundle)
            configuration = deployment.configuration(deployment.up).configuration
        else:
            with refusals():
                configuration = _invented(given.recipe or "", given.fabric_path or "", given.prefer)
        if given.lost:
            failed = known_failures(configuration.cabling.fabric).and_also(components(given.lost))
            return _asked(configuration, failed, given.where, given.seed or 0, given.collective)
        return _losses(configuration, wanted, given.collective, deployed=given.bundle is not None)


def _invented(recipe: str, fabric_path: str, prefer: str) -> Configuration:
    """A recipe on a fabric, on cables of its own."""
    from ocs_codesign.fabric.embedding.embed import embed
    from ocs_codesign.fabric.files.fabric_files import load_fabric
    from ocs_codesign.faces.cli.handles import recipe_of

    topology = recipe_of(recipe).topology()
    return embed(load_fabric(fabric_path), topology, prefer=prefer).configuration


def _losses(
    configuration: Configuration, kinds: tuple[str, ...], collective: str, *, deployed: bool
) -> Answer:
    """All single losses."""
    from ocs_codesign.fabric.survival import survivability

    tell_phase("Losing one at a time")
    survival = survivability(configuration, kinds, collective)
    code = 0 if all(loss.left.is_connected for loss in survival.losses) else 1
    return answered("deploy.survivability", survival, deployed, code=code)


def _asked(
    configuration: Configuration, failed: Failures, where: str | None, seed: int, collective: str
) -> Answer:
    """A repair on an embedding that is invented for the question."""
    from ocs_codesign.fabric.infeasible import InfeasibleError
    from ocs_codesign.fabric.repairs.repair import repair
    from ocs_codesign.fabric.repairs.splicing import spliced_configuration
    from ocs_codesign.faces.answers.declared import records
    from ocs_codesign.faces.answers.deploy import INVENTED, repair_sections

    invented = {"what_if": True, "note": INVENTED}
    if where is not None:
        splice, sections = spliced_question(configuration, failed, where, collective, seed)
        return told("deploy.spliced", splice | invented, [INVENTED, *sections])

    def make() -> SplicedConfiguration:
        return spliced_configuration(
            configuration, failed.hosts, collective, most_scored=SCORED_FOR_AN_OFFER
        )

    try:
        made = repair(configuration, failed.hosts, failed.ports, failed.switches)
    except InfeasibleError as error:
        offer, sentences = offered_splice(make, failed)
        return refused(error, "repaired", *sentences, **offer)
    offer, sentences = offered_splice(make, failed)
    words = {**records()["repair"].json(made), **offer, **invented}
    return told("deploy.survived", words, [INVENTED, *repair_sections(made), *sentences])


def _changed(
    deployment: Deployment, failed: Failures, is_mended: bool, place: BundlePlace | None
) -> Answer:
    """A repair of what is deployed, or what has failed and works again."""
    from ocs_codesign.fabric.deployments.day_two import repaired, restored
    from ocs_codesign.fabric.infeasible import InfeasibleError
    from ocs_codesign.faces.answers.declared import records
    from ocs_codesign.faces.answers.deploy import deployed_sections, repair_sections

    done = None
    offer: dict[str, Any] = {}
    sentences: list[str] = []
    if is_mended:
        changed = restored(deployment, failed)
    else:
        tell_phase("Repairing")
        try:
            changed, done = repaired(deployment, failed)
        except InfeasibleError as error:
            return _refused(deployment, failed, error)
        offer, sentences = _offer(deployment, failed)
    if place is not None:
        write(changed, place)
    made = {} if done is None else records()["repair"].json(done)
    sections = [] if done is None else [*repair_sections(done), *sentences, ""]
    words = {**made, **offer, **records()["deployed"].json(changed, place)}
    return told("deploy.survived", words, [*sections, *deployed_sections(changed, place)])


def _offer(deployment: Deployment, failed: Failures) -> tuple[dict[str, Any], list[str]]:
    """What going on without the lost hosts would cost."""
    from ocs_codesign.fabric.deployments.held import spliced_up

    return offered_splice(
        lambda: spliced_up(deployment, failed, most_scored=SCORED_FOR_AN_OFFER), failed
    )


def _refused(deployment: Deployment, failed: Failures, error: InfeasibleError) -> Answer:
    """What cannot be repaired, and what could be brought up instead."""
    from ocs_codesign.fabric.deployments.day_two import redesign
    from ocs_codesign.faces.answers.declared import records
    from ocs_codesign.faces.answers.deploy import redesign_text

    offer, sentences = _offer(deployment, failed)
    if failed.switches and not (failed.hosts or failed.ports or failed.cables):
        try:
            offered = redesign(deployment, failed)
            offer["redesign"] = records()["redesign"].json(offered)
            sentences.append(redesign_text(offered))
        except ValueError as none:
            sentences.append(f"There is no redesign: {none}.")
    return refused(error, "repaired", *sentences, **offer)


def _redesigned(
    deployment: Deployment, failed: Failures, name: str, place: BundlePlace | None
) -> Answer:
    """Another design on what is left."""
    from ocs_codesign.fabric.bundle.write.text import check_names
    from ocs_codesign.fabric.deployments.day_two import redesigned

    check_names(deployment.fabric, [name])
    changed, change = redesigned(deployment, failed, name)
    if place is not None:
        write(changed, place)
    return answered("deploy.change", changed, change, place)


def _kinds(text: str | None) -> tuple[str, ...]:
    if text is None:
        return KINDS
    kinds = tuple(kind.strip() for kind in text.split(","))
    for kind in kinds:
        if kind not in KINDS:
            raise click.UsageError(f"--lost has {kind!r}: it must be of {', '.join(KINDS)}")
    return kinds
