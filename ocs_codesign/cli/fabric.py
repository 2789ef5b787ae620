"""``ocs-codesign fabric``: check a fabric file, and see profiles, schema and an example."""

from __future__ import annotations

import click

from ocs_codesign.cli.file_options import INPUT
from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit


@click.group(short_help="Describe and check a fabric of optical circuit switches.")
def fabric() -> None:
    """Describe hosts, planes and optical circuit switches in a file, and check it.

    \b
    Example:
      ocs-codesign fabric example > fabric.yaml
      ocs-codesign fabric check fabric.yaml
    """


@fabric.command("check")
@click.argument("file", type=INPUT)
@json_option
def check_command(file: str, json_path: str | None) -> None:
    """Check a fabric FILE (YAML or JSON) and say what it describes.

    Exit code 1 if a plane has too few ports for the working hosts, or a circuit through one switch
    loses more light than the budget allows.

    \b
    Example:
      ocs-codesign fabric example > fabric.yaml
      ocs-codesign fabric check fabric.yaml
    """
    check_outputs(json_path)
    from ocs_codesign.answers.fabric import check_json, check_sections
    from ocs_codesign.fabric.facts import fabric_facts
    from ocs_codesign.fabric.prices import fabric_price
    from ocs_codesign.formats.fabric.fabric_files import load_fabric

    described = load_fabric(file)
    facts, prices = fabric_facts(described), fabric_price(described)
    answer = check_json(file, described, facts, prices)
    emit(answer, json_path, check_sections(described, facts, prices))
    if facts.findings:
        raise click.exceptions.Exit(1)


@fabric.command("profiles")
@click.argument("name", required=False)
@json_option
def profiles_command(name: str | None, json_path: str | None) -> None:
    """List the known switch profiles with their sources, or the one of a NAME.

    \b
    Example:
      ocs-codesign fabric profiles polatis-384
    """
    check_outputs(json_path)
    from ocs_codesign.answers.fabric import profiles_json, profiles_sections
    from ocs_codesign.fabric.profiles import PROFILES, profile_named

    chosen = list(PROFILES.values()) if name is None else [profile_named(name)]
    emit(profiles_json(chosen), json_path, profiles_sections(chosen))


@fabric.command("schema")
@click.option("--workload", is_flag=True, help="That of the workload files of 'select' instead.")
@click.option("--cluster", is_flag=True, help="That of the cluster files of 'cluster' instead.")
def schema_command(workload: bool, cluster: bool) -> None:
    """Print the JSON Schema of fabric files.

    \b
    Example:
      ocs-codesign fabric schema > fabric.schema.json
    """
    if workload and cluster:
        raise click.UsageError("--workload and --cluster are two schemas: ask for one")
    from ocs_codesign.formats.cluster_files import cluster_json_schema
    from ocs_codesign.formats.fabric.schema import json_schema
    from ocs_codesign.formats.workload import workload_json_schema

    asked = workload_json_schema if workload else cluster_json_schema if cluster else json_schema
    emit(asked(), "-", ())


@fabric.command("example")
@click.option("--hosts", type=int, default=64, show_default=True, help="Hosts.")
@click.option("--planes", type=int, default=4, show_default=True, help="Planes.")
@click.option("--profile", default="polatis-384", show_default=True, help="Switch profile.")
def example_command(hosts: int, planes: int, profile: str) -> None:
    """Print a commented fabric file to begin with.

    \b
    Example:
      ocs-codesign fabric example --hosts 64 --planes 4 > fabric.yaml
    """
    from ocs_codesign.formats.fabric.example import example_text

    click.echo(example_text(hosts, planes, profile), nl=False)
