"""``ocs-codesign rewire``: from one topology's circuits to another's, in stages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.progress import tell_phase
from ocs_codesign.core.quantities import parse_time
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import OptionGroup, argument, command, group, option
from ocs_codesign.faces.cli.deployed import (
    WHERE,
    archive_option,
    asked_place,
    bundle_option,
    check_asked,
    read,
    refusals,
    splice_of,
    splice_option,
    spliced_bundle,
    what_if_option,
    where_to,
    write,
)
from ocs_codesign.faces.cli.output import STDOUT, Answer, answered, asked_output, check_outputs
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.circuits.change import Change
    from ocs_codesign.core.topology import Topology
    from ocs_codesign.fabric.bundle.write.bundle import BundlePlace
    from ocs_codesign.fabric.description import PortModel
    from ocs_codesign.faces.answers.sections import Section


# Spelled out, since importing ocs_codesign.fabric for a help text would take too long.
PORT_MODELS = ("simplex", "two-sided", "matching")
HOSTS_CHANGE = "circuits change between the same hosts"


class InventedOptions(OptionGroup):
    """Of circuits that are invented for a question: their planes, switches, and the search."""

    port_model: str | None = option(
        "--port-model",
        type=click.Choice(PORT_MODELS),
        help="What a plane can hold (default: as the profile says, else simplex).",
    )
    planes: int | None = option(
        "--planes",
        type=click.IntRange(1, 4096),
        help="Planes there are (default: as both need); more than both together are left idle.",
    )
    free_hosts: bool = option(
        "--free-hosts", is_flag=True, help="Choose which host is which node, too."
    )
    profile: str | None = option(
        "--profile", metavar="NAME", help="Switches of this make, such as polatis-384."
    )
    delta: float | None = opt.delta_option()
    delta_per_circuit: float | None = opt.delta_per_circuit_option
    plane_stops: bool = option(
        "--plane-stops", is_flag=True, help="A plane is dark as a whole while it changes."
    )
    time_limit: float | None = opt.quantity_option(
        "--time-limit", parse_time, "Time for the search (default 60s)."
    )


class RewireOptions(OptionGroup):
    """From what to what circuits change, in a bundle or as a question."""

    ends: tuple[str, ...] = argument("ends", nargs=-1, metavar="[FROM] [TO]")
    bundle: str | None = bundle_option
    what_if: bool = what_if_option
    held_path: str | None = option(
        "--start",
        type=opt.INPUT,
        metavar="FILE",
        help="The cross-connects that are up now, instead of FROM: a CSV of switch (or plane) and "
        "id.",
    )
    without: tuple[str, ...] = option(
        "--without",
        metavar="HOST",
        multiple=True,
        help="TO is what is left without it, its circuits joined: a host of the bundle, or the "
        "number of a node of FROM; repeat it.",
    )
    where: str | None = splice_option
    done: bool = option("--done", is_flag=True, help="The work that a bundle plans has been done.")
    seed: int | None = option(
        "--seed", type=click.IntRange(0), help="Seed of local searches (default 0)."
    )
    out: str | None = option(
        "--out",
        type=opt.PLACE,
        metavar="PATH",
        help="Where to put the changed bundle (default: that of --bundle); with --what-if a CSV of"
        " all cross-connects, in their order.",
    )
    archive_path: str | None = archive_option
    invented: InventedOptions = group(InventedOptions)


@command()
def rewire(given: RewireOptions = group(RewireOptions)) -> Answer:
    """Plan the change of circuits to TO, and bring a bundle to what it is afterwards.

    With --bundle, TO is one of its configurations: the stages lead from the cross-connects of the
    configuration that is up (FROM, if given, must be it), or from those of --start, to those of TO,
    and the bundle says that TO is planned, with the work. When that is done, by this or another
    command, --done says so: then TO is up, and other work can be planned.

    With --what-if and no bundle, FROM and TO are recipes or graph files. The planes of the new
    topology are chosen such that the fewest circuits have to be made, with a proof or a bound. A
    cross-connect 1A-2B joins the A port of node 0 with the B port of node 1 in its plane.

    --without hosts that are lost, TO is what is left: what led into them is joined with what led
    out of them, in the cheapest way by exact cost.

    Planes change in stages, in each of which circuits are torn down before others are made, and
    the circuits that stay up are proven to join all nodes, if that can be.

    \b
    Example:
      ocs-codesign rewire 'DirectedCirculant(8, (1, 3))' 'GeneralizedKautz(2, 8)' --what-if
      ocs-codesign rewire 'DirectedCirculant(64, (1, 8))' --without 5 --without 9 --what-if
    """
    ends, bundle, without = given.ends, given.bundle, given.without
    asked = [f"--{name.replace('_', '-')}" for name, value in vars(given.invented).items() if value]
    if given.seed is not None and not without:
        asked.append("--seed")
    check_asked(bundle, given.what_if, asked)
    most = 1 if without else 2
    if len(ends) > most:
        there = "is FROM, and TO is what is left" if without else "are FROM and TO"
        raise click.UsageError(f"{len(ends)} arguments are given: there {there}")
    if len(ends) == 2 and given.held_path is not None:
        raise click.UsageError("--start takes the place of FROM: give TO alone")
    if given.held_path is not None and without:
        raise click.UsageError("--start and --without: TO is what is left of FROM, so give FROM")
    if given.where is not None and not without:
        raise click.UsageError("--splice is how circuits of hosts are joined: name them --without")
    if given.done and (bundle is None or given.what_if or ends or without or given.held_path):
        raise click.UsageError("--done is for the planned work of a --bundle, and nothing else")
    if bundle is not None:
        if given.done:
            return _reported(bundle, where_to(bundle, given.out, given.archive_path))
        if not (ends or without):
            raise click.UsageError("give TO, a configuration of the bundle, or --without hosts")
        place = asked_place(bundle, given.out, given.archive_path, what_if=given.what_if)
        return _without(given, bundle, place) if without else _deployed(given, bundle, place)
    if without and not ends:
        raise click.UsageError("give FROM, of which nodes are lost")
    if given.where == WHERE[0]:
        raise click.UsageError(
            "--splice in-place depends on cables: give --bundle, or ask survive with a --fabric"
        )
    if not without and len(ends) + (given.held_path is not None) < 2:
        raise click.UsageError("give FROM, or --start FILE, and TO")
    if given.archive_path is not None:
        raise click.UsageError("--archive is for a changed bundle: give --bundle")
    return _asked(given, given.invented)


def _without(given: RewireOptions, bundle: str, place: BundlePlace | None) -> Answer:
    """What is up in a bundle, without hosts."""
    from ocs_codesign.fabric.deployments.deploy import Failures

    with progress("Reading files"), refusals("repaired"):
        deployment = read(bundle)
        if given.ends and given.ends[0] != deployment.up:
            raise ValueError(f"{deployment.up!r} is up, not {given.ends[0]!r}")
        where, lost = given.where or WHERE[0], Failures(given.without)
        return spliced_bundle(deployment, lost, where, place, given.seed or 0)


def _reported(bundle: str, place: BundlePlace) -> Answer:
    """The planned work of a bundle is done."""
    with progress("Reading files"):
        deployment = read(bundle).reported()
        write(deployment, place)
    return answered("deploy.deployed", deployment, place)


def _deployed(given: RewireOptions, bundle: str, place: BundlePlace | None) -> Answer:
    """From what is up in a bundle to another of its configurations."""
    from ocs_codesign.fabric.deployments.day_two import rewired
    from ocs_codesign.fabric.files.held_files import read_joined_ports

    ends, held_path = given.ends, given.held_path
    with progress("Reading files"):
        deployment = read(bundle)
        if len(ends) == 2 and ends[0] != deployment.up:
            raise ValueError(f"{deployment.up!r} is up, not {ends[0]!r}")
        held = None if held_path is None else read_joined_ports(held_path, deployment.fabric)
        tell_phase("Ordering stages")
        changed, change = rewired(deployment, ends[-1], held)
        if place is not None:
            write(changed, place)
    return answered("deploy.change", changed, change, place)


def _asked(given: RewireOptions, by: InventedOptions) -> Answer:
    """Between topologies on circuits that are invented."""
    if by.profile is not None and not by.delta is by.delta_per_circuit is None:
        raise click.UsageError("--profile says the dead time: --delta is for switches without one")
    out, held_path, seed = given.out, given.held_path, given.seed or 0
    check_outputs(asked_output("json"), out)
    from ocs_codesign.circuits.change import Change
    from ocs_codesign.core.lp import Options
    from ocs_codesign.fabric.files.held_files import read_plane_state
    from ocs_codesign.fabric.planes.models import planes_of
    from ocs_codesign.fabric.repairs.splicing import without_nodes
    from ocs_codesign.fabric.rewiring.hosts import free_rewiring
    from ocs_codesign.fabric.rewiring.minimum import TIME_LIMIT_S, is_kept, minimum_rewiring
    from ocs_codesign.fabric.rewiring.stages import staged
    from ocs_codesign.fabric.rewiring.state import plane_state
    from ocs_codesign.faces.answers.declared import records
    from ocs_codesign.faces.answers.deploy import INVENTED, choice_facts
    from ocs_codesign.faces.answers.rewire import RewiringAnswer, plan_csv
    from ocs_codesign.faces.answers.sections import Facts

    with progress("Choosing planes"):
        model, cost = _switches(by)
        name, target = _named_topology(given.ends[-1])
        lost = None
        if given.without:
            tell_phase("Joining circuits")
            lost = splice_of(name, target, given.without, two_way=model.is_bidirectional, seed=seed)
            name, target = lost.name, lost.topology
        as_it_comes = planes_of(target, model)
        if held_path is None:
            held_name, first = _named_topology(given.ends[0])
            if lost is None and first.num_nodes != target.num_nodes:
                raise ValueError(
                    f"{held_name} has {first.num_nodes} nodes and {name} {target.num_nodes}: "
                    f"{HOSTS_CHANGE}"
                )
            before = planes_of(first, model)
            needed = max(before.num_planes, as_it_comes.num_planes)
            if by.planes is not None and by.planes < needed:
                raise ValueError(f"--planes is {by.planes}, but the topologies need {needed}")
            # On so many all that is kept can stay where it is, and the rest fits the others.
            useful = before.num_planes + as_it_comes.num_planes
            state = plane_state(before, min(by.planes or needed, useful))
            state = state if lost is None else without_nodes(state, lost.stays)
        else:
            held_name = held_path
            least = by.planes or as_it_comes.num_planes
            state = read_plane_state(held_path, model, target.num_nodes, least)
        limit_s = TIME_LIMIT_S if by.time_limit is None else by.time_limit
        options = Options(time_limit_s=limit_s)
        fixed = minimum_rewiring(state, target, model, options=options, seed=seed)
        free = None
        if by.free_hosts:
            tell_phase("Choosing hosts")
            free = free_rewiring(state, target, model, options=options, seed=seed)
        tell_phase("Ordering stages")
        after = (fixed if free is None else free.rewiring).target
        timed = cost or Change(0)
        plan = staged(state, after, timed, model, plane_stops=by.plane_stops)
        without_choice = int((~is_kept(as_it_comes, state)).sum())
        names = (held_name, name)
        answer = RewiringAnswer(names, fixed, free, without_choice, plan, cost is not None)
    files = {} if out is None else {out: plan_csv(plan)}
    found = answered(
        "rewire.rewiring", answer, written_to=None if out == STDOUT else out, files=files
    )
    told: list[Section] = [INVENTED]
    invented: dict[str, Any] = {"what_if": True, "note": INVENTED}
    if lost is not None:
        told += [Facts(*choice_facts(lost.choice)), ""]
        invented["splice"] = records()["splice_choice"].json(lost.choice)
    return replace(found, json={**found.json, **invented}, sections=[*told, *found.sections])


def _named_topology(text: str) -> tuple[str, Topology]:
    """What a recipe, or the name of a graph file, is called, and its topology."""
    from os.path import isfile

    from ocs_codesign.graphs.handle import asked_digits

    is_recipe = "(" in text or asked_digits(text) is not None
    is_file = not is_recipe or isfile(text)
    given = opt.GivenGraph.of(None, text) if is_file else opt.GivenGraph.of(text, None)
    return given.name, given.topology()


def _switches(by: InventedOptions) -> tuple[PortModel, Change | None]:
    from ocs_codesign.circuits.change import Change
    from ocs_codesign.fabric.description import PortModel
    from ocs_codesign.fabric.profiles import profile_named

    port_model = by.port_model
    if by.profile is None:
        model = PortModel(port_model or PORT_MODELS[0])
        if by.delta is None and by.delta_per_circuit is None:
            return model, None
        return model, Change(by.delta or 0, by.delta_per_circuit or 0)
    switch = profile_named(by.profile)
    if port_model is not None:
        try:
            switch = switch.used_as(PortModel(port_model))
        except ValueError as error:
            raise ValueError(
                f"{error}; here, give --port-model {port_model} and --delta without --profile"
            ) from None
    if switch.port_model is PortModel.RESTRICTED:
        raise ValueError(
            f"{by.profile} is restricted: its states are listed, so that no planes can be chosen"
        )
    return switch.port_model, switch.change


# ``ocs-codesign verify-bundle``: do cables and cross-connects make what the bundle claims?


NEGATIVE = 1


@command("verify-bundle")
def verify_bundle(
    bundle: str = argument("bundle", type=opt.BUNDLE, metavar="DIR|ZIP"),
    observed: str | None = option(
        "--observed",
        type=opt.INPUT,
        metavar="NEIGHBOURS.csv",
        help="Neighbours that were heard: local_host,local_port,remote_host,remote_port.",
    ),
    limit: int = option("--top", type=click.IntRange(1), default=1000, help="Findings to list."),
) -> Answer:
    """Follow the light through the cables and cross-connects of the bundle in DIR or ZIP.

    The topology that it makes is compared with all graphs and tables, the schedules are replayed
    on it, and the plans are carried out port by port. A row of observed neighbours says that a
    host heard on a port (p0 is that of plane 0; on two-sided switches p0-a and p0-b) what a remote
    host sent from its own; they must be those of one of the configurations. Exit code 1 if
    anything is wrong, with all that was found; 2 if it is not a bundle, or the zip is broken.

    \b
    Example:
      ocs-codesign fabric example --nodes 8 --planes 2 > fabric.yaml
      ocs-codesign deploy 'ring=BiRing(2, 8)' --fabric fabric.yaml --out bundle
      ocs-codesign verify-bundle bundle
    """
    from ocs_codesign.fabric.bundle.verify import check_bundle

    with progress("Reading files"):
        verdict = check_bundle(bundle, observed, limit=limit)
    return answered("rewire.verify_bundle", verdict, code=0 if verdict.ok else NEGATIVE)
