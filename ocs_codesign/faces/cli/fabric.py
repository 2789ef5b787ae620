"""``ocs-codesign fabric``: check a fabric file, and see profiles, schema and an example."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import OptionGroup, argument, command, group, option
from ocs_codesign.faces.cli.deployed import (
    archive_option,
    bundle_option,
    check_untouched,
    read,
    refusals,
    where_to,
    write,
)
from ocs_codesign.faces.cli.machine_options import machine_of, machine_option_of
from ocs_codesign.faces.cli.message_options import message_option, messages_option
from ocs_codesign.faces.cli.output import Answer, answered, asked_output, told
from ocs_codesign.faces.cli.pod import cubes_of, failed_option
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.fabric.deployments.deploy import Deployment, NamedRecipe
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.fabric.selection.ranking import Selection
    from ocs_codesign.fabric.selection.steps import Workload
    from ocs_codesign.graphs.recipe import Recipe


@click.group()
def fabric() -> None:
    """Describe hosts, planes and optical circuit switches in a file, and check it.

    \b
    Example:
      ocs-codesign fabric example > fabric.yaml
      ocs-codesign fabric check fabric.yaml
    """


@command("check", of=fabric, short_help="Check a fabric file and say what it describes.")
def check_command(file: str = argument("file", type=opt.INPUT)) -> Answer:
    """Check a fabric FILE (YAML or JSON) and say what it describes.

    Exit code 1 if a plane has too few ports for the working hosts, or a circuit through one switch
    loses more light than the budget allows.

    \b
    Example:
      ocs-codesign fabric example > fabric.yaml
      ocs-codesign fabric check fabric.yaml
    """
    from ocs_codesign.fabric.description import fabric_facts
    from ocs_codesign.fabric.files.fabric_files import load_fabric
    from ocs_codesign.fabric.profiles import fabric_price

    described = load_fabric(file)
    facts, prices = fabric_facts(described), fabric_price(described)
    more, code = {"file": file}, 1 if facts.findings else 0
    return answered("select.check", described, facts, prices, more=more, code=code)


@command("profiles", of=fabric, short_help="List the switches that are known, with sources.")
def profiles_command(name: str | None = argument("name", required=False)) -> Answer:
    """List the known switch profiles with their sources, or the one of a NAME.

    \b
    Example:
      ocs-codesign fabric profiles polatis-384
    """
    from ocs_codesign.fabric.profiles import PROFILES, profile_named

    chosen = list(PROFILES.values()) if name is None else [profile_named(name)]
    return answered("select.profiles", chosen)


@command("netbox", of=fabric, short_help="Write NetBox imports with the ids of what it has.")
def netbox_command(
    bundle: str = argument("bundle", type=opt.BUNDLE, metavar="DIR|ZIP"),
    exported: str = argument("exported", type=opt.DIRECTORY),
    directory: str = option(
        "--out", type=opt.DIRECTORY, metavar="DIR", required=True, help="Where to put them."
    ),
) -> Answer:
    """Write the NetBox imports of a bundle with the ids of what NetBox has, to be updated.

    EXPORTED is a directory with what NetBox exports (CSV, with the column ID) under the names of
    the bundle's files, such as dcim.device.csv; what is not there is written without ids.

    \b
    Example:
      ocs-codesign fabric example --nodes 8 --planes 2 > fabric.yaml
      ocs-codesign deploy 'ring=BiRing(2, 8)' --fabric fabric.yaml --out bundle
      ocs-codesign fabric netbox bundle . --out imports
    """
    from ocs_codesign.core.files.archives import as_directory
    from ocs_codesign.fabric.bundle.write.netbox import imports_with_ids
    from ocs_codesign.faces.answers.sections import Table

    with as_directory(Path(bundle), "a bundle") as place:
        made = imports_with_ids(place / "netbox", Path(exported))
    Path(directory).mkdir(parents=True, exist_ok=True)
    known = {name: count for name, (_, count) in made.items()}
    rows = [(str(count), name) for name, count in known.items()]
    files = {str(Path(directory) / name): content for name, (content, _) in made.items()}
    answer = {"out": directory, "with_an_id": known}
    shown = Table(("with an id", "file"), rows, numbers=1)
    return told("sections.imports", answer, [shown], files)


SCHEMAS = ("fabric", "workload", "cluster", "room")


@command("schema", of=fabric, short_help="Print the JSON Schema of a kind of file.", json=False)
def schema_command(
    kind: str = argument("kind", type=click.Choice(SCHEMAS), default=SCHEMAS[0]),
) -> None:
    """Print the JSON Schema of files of a KIND: fabrics, workloads, clusters, or rooms as a whole.

    \b
    Example:
      ocs-codesign fabric schema > fabric.schema.json
    """
    from ocs_codesign.fabric.files.cluster_files import cluster_json_schema
    from ocs_codesign.fabric.files.schema import json_schema
    from ocs_codesign.fabric.files.workload import workload_json_schema
    from ocs_codesign.jobs.files.site_files import site_json_schema

    schemas = (json_schema, workload_json_schema, cluster_json_schema, site_json_schema)
    click.echo(json.dumps(schemas[SCHEMAS.index(kind)](), indent=2, ensure_ascii=False))


@command(
    "example", of=fabric, short_help="Print a commented fabric file to begin with.", json=False
)
def example_command(
    file: str | None = argument("file", type=opt.INPUT, required=False),
    hosts: int = option("--nodes", type=int, default=64, help="Hosts."),
    planes: int = option("--planes", type=int, default=4, help="Planes."),
    profile: str = option("--profile", default="polatis-384", help="Switch profile."),
) -> None:
    """Print a commented fabric file to begin with.

    Of an older FILE of a fabric, a cluster or a cluster for jobs, or of a builder such as
    dgx_h100(64), print what describes the same as a room, which all commands take.

    \b
    Example:
      ocs-codesign fabric example --nodes 64 --planes 4 > fabric.yaml
      ocs-codesign fabric example fabric.yaml > room.yaml
      ocs-codesign fabric check room.yaml
    """
    if file is not None:
        from ocs_codesign.jobs.files.site_files import load_site

        click.echo(load_site(file).text(), nl=False)
        return
    from ocs_codesign.fabric.files.example import example_text

    click.echo(example_text(hosts, planes, profile), nl=False)


# ``ocs-codesign select``: which designs or plans serve a workload fastest on a fabric.


class SelectOptions(OptionGroup):
    """What is ranked on which fabric for which workload."""

    fabric_path: str = opt.fabric_option
    workload_path: str | None = option(
        "--workload", type=opt.INPUT, metavar="FILE", help="The workload; - is standard input."
    )
    collectives: tuple[str, ...] = opt.collective_choice(
        *(*opt.GATHERING, opt.ALLTOALL),
        multiple=True,
        help="Instead of a workload: a collective; give it again for more.  [default: allreduce]",
    )
    messages: tuple[float, ...] = messages_option
    machine: str | None = machine_option_of(
        "Steps and rates are those of a machine's protocols, the fastest for each message: a name "
        "such as roce-400g, or a file that calibrate has written (default: the fabric's alpha)."
    )
    top: int = option("--top", type=click.IntRange(1), default=10, help="Plans to show.")
    designs: tuple[str, ...] = option(
        "--designs", multiple=True, metavar="RECIPE", help="Only these; may be given often."
    )
    catalogue_path: str | None = option(
        "--catalogue",
        type=opt.FILE,
        metavar="FILE",
        help="A catalogue, instead of the one shipped.",
    )
    pick: int | None = opt.pick_option


@command(plot="the break-downs")
def select(given: SelectOptions = group(SelectOptions)) -> Answer:
    """Rank what a fabric could hold by the time that a workload takes on it.

    The fabric and the workload are YAML or JSON files: 'ocs-codesign fabric schema' documents the
    keys of the one, 'ocs-codesign fabric schema workload' those of the other.

    Candidates are the designs known for the fabric's working hosts and ports that no other beats at
    the workload's collectives, a ring and a torus and, as far as the workload allows, plans that
    change circuits between collectives or inside an all-to-all. An allreduce and its halves take
    the time of forests where these are faster, with their parts said; 'deploy --message' builds
    them for messages of a size, else the design's own schedule. All-to-alls take the time of their
    best routing, with messages split at will; 'deploy' builds one in whole chunks, which may take a
    little more. What does not fit is left out and said why. With --message instead of a workload,
    designs are ranked for collectives of that size; of several sizes each has a column. Exit code 1
    if nothing fits.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign select --fabric fabric64.yaml --workload moe_workload.yaml
    """
    if given.designs and given.catalogue_path is not None:
        raise click.UsageError("give either --designs or --catalogue")
    if (given.workload_path is None) == (not given.messages) or (
        given.collectives and not given.messages
    ):
        raise click.UsageError("give either --workload or --message, with or without --collective")
    if len(given.messages) > 1 and (asked_output("plot") is not None or given.pick is not None):
        raise click.UsageError("--plot and --pick are for one ranking: give one --message")
    from ocs_codesign.fabric.description import check_usable
    from ocs_codesign.fabric.files.fabric_files import load_fabric
    from ocs_codesign.fabric.files.workload import load_workload
    from ocs_codesign.fabric.selection.ranking import ranked_for

    fabric, real = load_fabric(given.fabric_path), machine_of(given.machine)
    if real is not None:
        bandwidth = fabric.cost_model.node_bandwidth_Bps
        model = real.cost_model(bandwidth, fabric.num_ports_per_host)
        fabric = replace(fabric, cost_model=model)
    with refusals():
        check_usable(fabric)
    if given.workload_path is None:
        workload, *others = _of_messages(given.collectives, given.messages)
    else:
        workload, *others = [load_workload(given.workload_path)]
    with progress("Measuring designs"):
        selection = _selected(fabric, workload, given.designs, given.catalogue_path)
    code = 0 if selection.ranked else 1
    if others:
        selections = [selection, *(ranked_for(selection, other) for other in others)]
        return answered("select.selections", selections, given.top, code=code).by_clock_of(real)
    figure = ("selection.selection_figure", selection, given.top)
    answer = answered("select.selection", selection, given.top, code=code, figure=figure)
    rows = [[option.name for option in plan.options] for plan in selection.ranked]
    return answer.by_clock_of(real).picked(rows, given.pick)


def _of_messages(collectives: tuple[str, ...], messages: tuple[float, ...]) -> list[Workload]:
    from ocs_codesign.core.collective import Collective
    from ocs_codesign.fabric.selection.steps import Workload

    kinds = [Collective.parse(name) for name in collectives or ("allreduce",)]
    return [Workload.of(kinds, size) for size in dict.fromkeys(messages)]


def _selected(
    fabric: Fabric, workload: Workload, designs: tuple[str, ...], catalogue_path: str | None
) -> Selection:
    from ocs_codesign.circuits.legs.options import recipe_options
    from ocs_codesign.fabric.selection.ranking import select
    from ocs_codesign.fabric.selection.steps import known_options

    collectives = workload.trace.collectives
    if designs:
        named = recipe_options(_named(fabric, designs), collectives)
        return select(fabric, workload, named)
    options, serving = known_options(fabric, collectives, catalogue_path)
    return select(fabric, workload, options, serving)


def _named(fabric: Fabric, designs: tuple[str, ...]) -> tuple[Recipe, ...]:
    from ocs_codesign.faces.cli.handles import recipe_of

    recipes = [recipe_of(text) for text in designs]
    for recipe in recipes:
        wanted = (fabric.num_working_hosts, fabric.num_ports_per_host)
        if (recipe.num_nodes, recipe.degree) != wanted:
            raise ValueError(
                f"{recipe!r} has {recipe.num_nodes} nodes of degree {recipe.degree}: the fabric "
                f"has {wanted[0]} working hosts with {wanted[1]} ports"
            )
    return tuple(recipes)


# ``ocs-codesign deploy``: recipes on a fabric, as a directory that an engineer can work from.


_NAMED = re.compile(r"\s*([^=()]+)=(.*)", re.DOTALL)


class DeployOptions(OptionGroup):
    """Which configurations go onto which fabric or into which bundle."""

    recipes: tuple[str, ...] = argument("recipes", nargs=-1, metavar="RECIPE...")
    fabric_path: str | None = option(
        "--fabric",
        type=opt.INPUT,
        metavar="FILE",
        help="The fabric file, for new cables; - is standard input.",
    )
    bundle: str | None = bundle_option
    remove: tuple[str, ...] = option(
        "--remove", metavar="NAME", multiple=True, help="Tear down one of a bundle."
    )
    collectives: tuple[str, ...] = opt.collective_choice(
        *(*opt.GATHERING, opt.ALLTOALL),
        multiple=True,
        default=["allreduce"],
        help="A collective to schedule; give it again for more.",
    )
    message: float | None = message_option
    prefer: str = opt.prefer_option
    directory: str | None = option(
        "--out",
        type=opt.DIRECTORY,
        metavar="DIR",
        help="Where to put the bundle (default: that of --bundle).",
    )
    archive_path: str | None = archive_option
    pod: str | None = option(
        "--pod", metavar="NAME|FILE", help="Put slices on the cubes of a pod instead."
    )
    failed: str | None = failed_option


@command()
def deploy(given: DeployOptions = group(DeployOptions)) -> Answer:
    """Put every RECIPE, as a configuration, on a fabric and write all that is needed to build it.

    DIR gets cables, cross-connects of every switch, link budgets, ports, ranks, prices, NetBox
    imports, graphs, verified schedules, the plans between configurations, checksums and a report to
    open in a browser, whole or not at all. DIR must be new, empty or hold an earlier bundle, which
    is replaced unless work was planned on it. The first configuration is the one that is up.

    Schedules are those of the designs, or, with --message, what select counts for messages of that
    size: forests where the fabric's cost model says that these are faster.

    With --bundle the cables are those that are laid: every RECIPE is added to the configurations
    of the bundle, and those of --remove are torn down. NAME=RECIPE names a configuration. Exit
    code 1 if they do not fit.

    With --archive FILE the bundle is one file, to send or to open in the explorer on a phone, alone
    or beside DIR; with --bundle and no RECIPE the bundle stays what it is. All that reads a bundle
    reads this file too.

    With --pod every RECIPE is a slice as 'pod cost' takes it, on cubes of its own, the first that
    are free, or those of NAME@3,17=SLICE. DIR gets the cables of the pod, what every switch joins
    for every slice and for all, and the permutations; 'verify-bundle' follows their light.

    \b
    Example:
      ocs-codesign fabric example --nodes 8 --planes 2 > fabric.yaml
      ocs-codesign deploy 'ring=BiRing(2, 8)' --fabric fabric.yaml --out bundle
      ocs-codesign deploy --bundle bundle 'other=GeneralizedKautz(2, 8)'
      ocs-codesign deploy a=4x4x8_twisted b@9,3,5,0=8x8x4 --pod tpu-v4 --out slices
    """
    if given.pod is not None:
        return _deploy_slices(given, given.pod)
    if given.failed is not None:
        raise click.UsageError("--failed is for --pod")
    if (given.fabric_path is None) == (given.bundle is None):
        raise click.UsageError("give --fabric FILE for new cables, or --bundle for laid ones")
    if (
        not given.recipes
        and not given.remove
        and (given.bundle is None or given.archive_path is None)
    ):
        raise click.UsageError("give at least one RECIPE")
    if given.remove and given.bundle is None:
        raise click.UsageError("--remove is for configurations of a --bundle")
    if given.bundle is None and given.directory is None and given.archive_path is None:
        raise click.UsageError("--out DIR is missing: where to put the bundle")
    from ocs_codesign.fabric.bundle.write.text import check_names

    wanted = named_recipes(given.recipes)
    with progress("Reading files"):
        place = where_to(given.bundle, given.directory, given.archive_path)
        if given.bundle is None and given.directory is not None:
            check_untouched(given.directory)
        kinds = tuple(dict.fromkeys(given.collectives))
        wishes: dict[str, Any] = {"prefer": given.prefer, "message_bytes": given.message}
        with refusals():
            if given.bundle is None:
                deployment = _new(given.fabric_path or "", wanted, kinds, wishes)
            else:
                deployment = _changed(read(given.bundle), given.remove, wanted, kinds, wishes)
        check_names(deployment.fabric, deployment.names)
        manifest = write(deployment, place)
    return answered("deploy.deployment", deployment, manifest, place)


def _deploy_slices(given: DeployOptions, pod_name: str) -> Answer:
    """Slices on the cubes of a pod."""
    others = (given.fabric_path, given.bundle, given.remove, given.message)
    if any(others) or given.collectives != ("allreduce",) or given.prefer != "any":
        raise click.UsageError("--pod takes --failed, --out and --archive: slices need no more")
    if not given.recipes:
        raise click.UsageError("give at least one slice")
    if given.directory is None and given.archive_path is None:
        raise click.UsageError("--out DIR is missing: where to put the bundle")
    from ocs_codesign.fabric.bundle.write.pods import write_pod
    from ocs_codesign.fabric.pods.description import load_pod, slice_of
    from ocs_codesign.fabric.pods.placing import place_slices

    described, wanted = load_pod(pod_name), []
    with progress("Reading files"):
        place = where_to(None, given.directory, given.archive_path)
        if given.directory is not None:
            check_untouched(given.directory)
        for number, text in enumerate(given.recipes, 1):
            match = _NAMED.fullmatch(text)
            name, slice_text = match.groups() if match else (f"slice{number}", text)
            name, at, cubes = name.strip().partition("@")
            chosen = cubes_of(cubes, name) if at else None
            wanted.append((name, slice_of(slice_text, described), chosen))
        placed = place_slices(described, wanted, cubes_of(given.failed, "--failed"))
        manifest = place.write(lambda directory: write_pod(described, placed, directory))
    return answered("pod.deployed", placed, manifest, place)


def _new(
    fabric_path: str, wanted: Sequence[NamedRecipe], kinds: Sequence[str], wishes: dict[str, Any]
) -> Deployment:
    """On new cables."""
    from ocs_codesign.fabric.bundle.write.text import check_names
    from ocs_codesign.fabric.deployments.deploy import deploy as deploy_on
    from ocs_codesign.fabric.files.fabric_files import load_fabric

    described = load_fabric(fabric_path)
    check_names(described, [named.name for named in wanted])
    return deploy_on(described, wanted, kinds, **wishes)


def _changed(
    deployment: Deployment,
    remove: Sequence[str],
    wanted: Sequence[NamedRecipe],
    kinds: Sequence[str],
    wishes: dict[str, Any],
) -> Deployment:
    """On laid cables: some torn down, then some added."""
    from ocs_codesign.fabric.bundle.write.text import check_names
    from ocs_codesign.fabric.deployments.day_two import extended, torn_down

    for name in remove:
        deployment = torn_down(deployment, name)
    names = dict.fromkeys([*deployment.names, *(named.name for named in wanted)])
    check_names(deployment.fabric, names)
    if not wanted:
        return deployment
    return extended(deployment, wanted, kinds, **wishes)


def named_recipes(texts: Sequence[str]) -> list[NamedRecipe]:
    """The recipes that were given, those without a name called ``configuration1`` and so on."""
    from ocs_codesign.fabric.deployments.deploy import NamedRecipe
    from ocs_codesign.faces.cli.handles import recipe_of

    named = []
    for number, text in enumerate(texts, 1):
        match = _NAMED.fullmatch(text)
        name, recipe = match.groups() if match else (f"configuration{number}", text)
        named.append(NamedRecipe(name.strip(), recipe_of(recipe)))
    return named
