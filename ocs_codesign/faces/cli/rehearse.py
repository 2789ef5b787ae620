"""``ocs-codesign rehearse``: a bundle on an emulated fabric, in namespaces of this machine."""

from __future__ import annotations

from typing import Any

import click

from ocs_codesign.faces.answers.sections import Table
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import OptionGroup, argument, command, group, option
from ocs_codesign.faces.cli.output import Answer, told
from ocs_codesign.faces.cli.progress import progress

FAULTS = ("host", "switch", "port", "cable", "silent", "stale", "agent")


class RehearseOptions(OptionGroup):
    """A bundle, what runs on it, and what fails."""

    bundle: str = argument("bundle", type=opt.BUNDLE, metavar="DIR|ZIP")
    collective: str | None = opt.collective_choice(
        *(*opt.GATHERING, opt.ALLTOALL), default=None, help="Only this of the bundle's collectives."
    )
    message: str = option(
        *("-m", "--message"), default="8MB", metavar="SIZE", help="M, the buffer of a rank."
    )
    slower: int = option(
        "--slower", type=click.IntRange(1, 10**9), default=25_000, help="Slower than the real one."
    )
    faults: tuple[str, ...] = option(
        *("--fault", "faults"),
        multiple=True,
        metavar="COMPONENT@SECONDS",
        help="Let host:, switch:, port: or cable:NAME fail, or silent:, stale:SWITCH:1A-2B or "
        "agent:SWITCH; repeat it.",
    )
    repair: bool = option("--repair", is_flag=True, help="Repair live as survive --repair says.")


@command()
def rehearse(given: RehearseOptions = group(RehearseOptions)) -> Answer:
    """Bring up the cables and switches of a bundle in Linux namespaces, and run its schedules.

    Every host and switch is a namespace, a cable a veth pair, a circuit a redirect; switches have
    agents, and the controller of ``control`` leads them. Neighbours, exact results, and bytes of
    every circuit on both its ends are compared with what the bundle says. No root is needed,
    nothing leaves the namespaces, and nothing stays. Exit code 1 if anything is not as it should
    be.

    \b
    Example:
      ocs-codesign fabric example --nodes 8 --planes 2 > fabric.yaml
      ocs-codesign deploy 'ring=BiRing(2, 8)' --fabric fabric.yaml --out bundle
      ocs-codesign rehearse bundle -m 100kB --fault port:p0-s0:3A@0.1
    """
    from pathlib import Path

    from ocs_codesign.core.quantities import parse_size
    from ocs_codesign.fabric.rehearsal.sandbox import in_namespaces

    for fault in given.faults:
        kind = fault.partition(":")[0]
        after = fault.rpartition("@")[2] if "@" in fault else "0"
        if kind not in FAULTS or not after.replace(".", "", 1).isdecimal():
            raise click.UsageError(
                f"--fault {fault!r}: it must be as port:SWITCH:1A@0.5, of {', '.join(FAULTS)}"
            )
    asked = {
        "bundle": str(Path(given.bundle).resolve()),
        "kinds": [] if given.collective is None else [given.collective],
        "message": int(parse_size(given.message)),
        "slower": given.slower,
        "faults": list(given.faults),
        "repair": given.repair,
    }
    with progress("Rehearsing"):
        answer = in_namespaces(asked)
    return told("rehearsal.rehearsed", _fixed(answer), _sections(answer), code=1 - _holds(answer))


def _fixed(answer: dict[str, Any]) -> dict[str, Any]:
    """What other programs read, no key more."""
    keys = ("up", "neighbours", "collectives", "circuits", "faults", "left_behind")
    faults = [
        {key: row[key] for key in ("component", "named", "repaired")} for row in answer["faults"]
    ]
    return {**{key: answer[key] for key in keys}, "faults": faults}


def _holds(answer: dict[str, Any]) -> bool:
    """Whether all is as the bundle says, or was after its repair."""
    return (
        answer["neighbours"] == "valid"
        and not answer["left_behind"]
        and all(each["results_exact"] for each in answer["collectives"])
        and all(row["loaded_bytes"] == row["counted_bytes"] for row in answer["circuits"])
        and all(fault["named"] and fault["repaired"] is not False for fault in answer["faults"])
    )


def _sections(answer: dict[str, Any]) -> list[Any]:
    equal = sum(row["loaded_bytes"] == row["counted_bytes"] for row in answer["circuits"])
    rows = [
        (
            *(each["name"], "yes" if each["results_exact"] else "no"),
            "-" if each["seconds"] is None else f"{each['seconds']:.3f}",
            f"{each['simulated_seconds']:.3f}",
        )
        for each in answer["collectives"]
    ]
    sections: list[Any] = [
        f"up in {answer['up_s']:.1f} s; neighbours: {answer['neighbours']}",
        Table(("collective", "exact", "seconds", "simulated"), rows),
    ]
    if any(each["results_exact"] and each["seconds"] is None for each in answer["collectives"]):
        sections.append("no seconds where this machine was too busy: hosts waited for a core")
    sections.append(
        f"bytes as loaded on {equal} of {len(answer['circuits'])} links, by counters of both ends"
    )
    for fault in answer["faults"]:
        mended = {None: "not asked to repair", True: "repaired", False: "not repaired"}
        named = " or ".join(fault["named"]) or "nothing"
        why = f": {fault['sentence']}" if fault["sentence"] else ""
        sections.append(f"{fault['component']}: named {named}; {mended[fault['repaired']]}{why}")
    return sections
