"""``ocs-codesign control`` and ``switch-agent``: a bundle's circuits on switches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.core.progress import tell_phase
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import argument, command, option
from ocs_codesign.faces.cli.deployed import read
from ocs_codesign.faces.cli.output import Answer, told
from ocs_codesign.faces.cli.progress import progress

if TYPE_CHECKING:
    from ocs_codesign.fabric.deployments.work import WorkStep
    from ocs_codesign.fabric.rehearsal.controller import Controller, State
    from ocs_codesign.fabric.rehearsal.reach import SwitchFile


@command()
def control(
    bundle: str = argument("bundle", type=opt.BUNDLE, metavar="DIR|ZIP"),
    path: str = option(
        "--switches",
        type=opt.INPUT,
        metavar="FILE",
        required=True,
        help="How switches are reached, YAML: reach: ssh admin@{switch}, or socket: PATH.",
    ),
    to: str | None = option(
        "--to",
        metavar="NAME",
        help="The configuration to bring up (default: what the bundle says).",
    ),
    work: bool = option("--work", is_flag=True, help="Do the planned work of the bundle."),
    what_if: bool = option("--what-if", is_flag=True, help="Only print the commands."),
    observed: str | None = option(
        "--observed",
        type=opt.INPUT,
        metavar="NEIGHBOURS.csv",
        help="Neighbours that hosts heard afterwards: those of the configuration, or exit code 1.",
    ),
) -> Answer:
    """Read what the switches hold, find where in a plan that is, and go on from there.

    There is no journal: a run that was killed goes on when it is started again, and one more
    gives no command. Each stage waits until its circuits are tuned. Only ports of the bundle's
    cables are touched. Exit code 1, with switch and circuit, if a switch does not answer, refuses,
    or holds no state of a plan.

    \b
    Example:
      ocs-codesign fabric example --nodes 8 --planes 2 > fabric.yaml
      ocs-codesign deploy 'ring=BiRing(2, 8)' --fabric fabric.yaml --out bundle
      ocs-codesign control bundle --switches switches.yaml --what-if
    """
    from ocs_codesign.fabric.rehearsal.controller import Controller, Refused, asked_only
    from ocs_codesign.fabric.rehearsal.reach import read_switch_file
    from ocs_codesign.fabric.rehearsal.targets import chains_to, live_switches, ports_of_cables
    from ocs_codesign.fabric.rehearsal.targets import work_chain as chain_of_work

    if work and to is not None:
        raise click.UsageError("--work is what the bundle plans: leave out --to")
    said: list[str] = []
    position, refusal = None, ""
    with progress("Reading files"):
        reach, deployment = read_switch_file(path), read(bundle)
        target = deployment.up if to is None else to
        deployment.configuration(target)
        chains = chains_to(deployment, target)
        hands: dict[int, tuple[WorkStep, ...]] = {}
        if work:
            chain, hands = chain_of_work(deployment)
            chains = [chain]
        asks = reach.asks(live_switches(deployment))
        tell_phase("Asking the switches")
        controller = Controller(asks, ports_of_cables(deployment), said.append)
        try:
            if what_if:
                controller = asked_only(controller)
            _hooked(controller, reach, hands, said, what_if=what_if)
            position = controller.control(chains)
            if observed is not None and not what_if:
                refusal = _heard_wrong(bundle, observed, target)
        except Refused as error:
            refusal = str(error)
    commands = [{"switch": switch, "line": line} for switch, line in controller.commands]
    words = {
        "reached": not refusal,
        "target": target,
        "begun_after": position,
        "commands": commands,
        "sentence": refusal or None,
    }
    end = refusal or (
        f"{target} {'would be' if what_if else 'is'} on all switches: {len(commands)} commands"
    )
    return told("rehearsal.controlled", words, [*said, end], code=1 if refusal else 0)


def _hooked(
    controller: Controller,
    reach: SwitchFile,
    hands: dict[int, tuple[WorkStep, ...]],
    said: list[str],
    *,
    what_if: bool,
) -> None:
    """Before a stage, its drain command runs, and what hands do is said."""
    import subprocess
    from shlex import quote

    from ocs_codesign.fabric.rehearsal.controller import Refused

    def drain(number: int, gone: State) -> None:
        said.extend(
            f"by hand, before the next line: {each.action.value} {each.cable} at "
            f"{each.switch} {each.id}"
            for each in hands.get(number, ())
        )
        if hands.get(number) and not what_if and controller.commands:
            raise Refused("cables have to be moved by hand now: then run this again")
        if reach.drain is not None and not what_if:
            ids = ",".join(f"{switch}:{name}" for switch in gone for name in sorted(gone[switch]))
            line = reach.drain.replace("{stage}", str(number)).replace("{circuits}", quote(ids))
            done = subprocess.run(line, shell=True, check=False)
            if done.returncode:
                raise Refused(f"the drain command of stage {number} ended with {done.returncode}")

    controller.drain = drain


def _heard_wrong(bundle: str, observed: str, target: str) -> str:
    """How many neighbours are not those of a configuration; empty if all are."""
    from ocs_codesign.fabric.bundle.verify import check_bundle

    for each in check_bundle(bundle, observed).observed:
        if each.configuration == target and each.differences:
            first = each.differences[0].sentence
            return f"{len(each.differences)} neighbours are not those of {target}: {first}"
    return ""


@command(json=False)
def switch_agent(
    switch: str = argument("switch"),
    directory: str = option(
        "--directory",
        type=opt.DIRECTORY,
        metavar="DIR",
        required=True,
        help="Where SWITCH.sock, at which it answers, and SWITCH.json, what it holds, are.",
    ),
) -> None:
    """Answer for the switch whose ports are interfaces of this network namespace: 1A, 1B, 2A ...

    A line of JSON at the socket is a request: {"command": "config ocs cross-connect add 1A-2B
    safe"}, {"command": "show ocs cross-connect status"} or {"patch": [...]}, a JSON patch of
    CONFIG_DB. It runs until it is ended; started again, it goes on with what it holds.

    \b
    Example:
      ocs-codesign switch-agent p0-s0 --directory /run/switches
    """
    from ocs_codesign.core.files.naming import check_name
    from ocs_codesign.fabric.rehearsal.agent import Agent, serve
    from ocs_codesign.fabric.rehearsal.kernel import KernelLight

    check_name(switch)
    light = KernelLight()
    if not light.ports():
        raise ValueError(f"no interface here is a port of switch {switch}: they are named 1A or 1")
    place = Path(directory)
    if not place.is_dir():
        raise ValueError(f"{directory} is no directory")
    serve(Agent(light, place / f"{switch}.json"), place / f"{switch}.sock")
