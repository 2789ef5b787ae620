"""``ocs-codesign rehearse``: a bundle on an emulated fabric, in namespaces of this machine."""

from __future__ import annotations

from typing import Any

import click

from ocs_codesign.faces.answers.sections import Table
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.commands import OptionGroup, argument, command, group, option
from ocs_codesign.faces.cli.deployed import read, where_to, write
from ocs_codesign.faces.cli.output import Answer, told
from ocs_codesign.faces.cli.progress import progress

FAULTS = ("host", "switch", "port", "cable", "silent", "stale", "agent", "controller")


class RehearseOptions(OptionGroup):
    """A bundle, what runs on it, and what fails."""

    bundle: str | None = argument(
        "bundle", type=opt.BUNDLE, metavar="DIR|ZIP", required=False, default=None
    )
    collective: str | None = opt.collective_choice(
        *(*opt.GATHERING, opt.ALLTOALL), default=None, help="Only this of the bundle's collectives."
    )
    message: str = option(
        *("-m", "--message"), default="8MB", metavar="SIZE", help="M, the buffer of a rank."
    )
    slower: int = option(
        "--slower", type=click.IntRange(1, 10**9), default=25_000, help="Slower than the real one."
    )
    to: str | None = option(
        *("--to",), metavar="NAME", help="Change to this configuration first, under traffic."
    )
    undrained: bool = option(
        "--undrained", is_flag=True, help="With --to: streams are cut, and what is lost is counted."
    )
    faults: tuple[str, ...] = option(
        *("--fault", "faults"),
        multiple=True,
        metavar="COMPONENT@SECONDS",
        help="Let host:, switch:, port: or cable:NAME fail, or silent:, stale:SWITCH:1A-2B or "
        "agent:SWITCH, or with --to the controller; repeat it.",
    )
    repair: bool = option("--repair", is_flag=True, help="Repair live as survive --repair says.")
    mpi: bool = option("--mpi", is_flag=True, help="Then run them over Open MPI by the circuits.")
    out: str | None = option(
        *("--out",),
        type=opt.DIRECTORY,
        metavar="DIR",
        help="Put the bundle there with what came of it, in rehearsal.json and the report; that "
        "may be where it is.",
    )
    keep: bool = option("--keep", is_flag=True, help="Leave the fabric up, for control.")
    down: bool = option("--down", is_flag=True, help="Take down what --keep left; no bundle.")


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
    from ocs_codesign.fabric.rehearsal.sandbox import in_namespaces, taken_down
    from ocs_codesign.interop.run.launch import check_available

    if given.down == (given.bundle is not None):
        raise click.UsageError("give a bundle, or --down alone")
    if given.bundle is None:
        ended = taken_down()
        return told("rehearsal.down", {"ended": ended}, [f"{ended} processes ended"])
    _check(given)
    if given.mpi:
        check_available()
    asked = {
        "bundle": str(Path(given.bundle).resolve()),
        "kinds": [] if given.collective is None else [given.collective],
        "message": int(parse_size(given.message)),
        "slower": given.slower,
        "to": given.to,
        "is_drained": not given.undrained,
        "faults": list(given.faults),
        "repair": given.repair,
        "keep": given.keep,
        "mpi": given.mpi,
    }
    place = None if given.out is None else where_to(given.bundle, given.out, None)
    with progress("Rehearsing"):
        answer = in_namespaces(asked)
        sections = _sections(answer)
        if place is not None:
            manifest = write(read(given.bundle), place, _record(answer, asked))
            sections.append(f"bundle {place}: {len(manifest['files']) + 1} files, rehearsal.json")
    return told("rehearsal.rehearsed", _fixed(answer), sections, code=1 - _holds(answer))


def _check(given: RehearseOptions) -> None:
    if given.undrained and given.to is None:
        raise click.UsageError("--undrained: only with --to do circuits change")
    for fault in given.faults:
        component, _, after_s = fault.partition("@")
        kind, _, name = component.partition(":")
        is_time = not after_s or after_s.replace(".", "", 1).isdecimal()
        if kind not in FAULTS or (not name and kind != "controller") or not is_time:
            raise click.UsageError(
                f"--fault {fault!r}: it must be as port:SWITCH:1A@0.5, of {', '.join(FAULTS)}"
            )
        if kind == "controller" and given.to is None:
            raise click.UsageError("--fault controller: only with --to does a controller work")


def _fixed(answer: dict[str, Any]) -> dict[str, Any]:
    """What other programs read, no key more."""
    keys = ("up", "neighbours", "collectives", "circuits", "faults", "left_behind")
    faults = [
        {key: row[key] for key in ("component", "named", "repaired")} for row in answer["faults"]
    ]
    return {**{key: answer[key] for key in keys}, "faults": faults}


def _record(answer: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """What a bundle keeps of its rehearsal."""
    keys = ("component", "named", "repaired", "sentence", "waiting")
    faults = [{key: row.get(key) for key in keys} for row in answer["faults"]]
    head = {"format": "ocs-codesign rehearsal", "version": 1, "ok": _holds(answer)}
    head |= {"message_bytes": asked["message"], "slower": asked["slower"]}
    head |= {"configuration": answer["configuration"], "mpi": answer["mpi"]}
    kept = ("neighbours", "change", "collectives", "circuits", "left_behind")
    return {**head, **{key: answer[key] for key in kept}, "faults": faults}


def _holds(answer: dict[str, Any]) -> bool:
    """Whether all is as the bundle says, or was after its repair."""
    change = answer["change"]
    return (
        answer["neighbours"] == "valid"
        and (change is None or _is_whole(change))
        and not answer["left_behind"]
        and all(each["results_exact"] for each in answer["collectives"])
        and all(row["loaded_bytes"] == row["counted_bytes"] for row in answer["circuits"])
        and all(each["results_equal"] and each["is_carried"] for each in answer["mpi"])
        and all(fault["named"] and fault["repaired"] is not False for fault in answer["faults"])
    )


def _is_whole(change: dict[str, Any]) -> bool:
    """Whether a change lost nothing but on streams that it cut, named no circuit that stays, and
    had nothing left to do."""
    lost = ("num_wrong", "kept_named", "commands_again")
    missing = change["sent_bytes"] - change["received_bytes"] - sum(change["lost_bytes"].values())
    is_lost = change["is_drained"] and change["num_lost_packets"]
    return not (missing or is_lost or any(change[key] for key in lost))


def _change_sections(change: dict[str, Any]) -> list[Any]:
    stages = change["ended_by_stage"]
    when, how = ("before", "ended") if change["is_drained"] else ("in", "were cut")
    sections: list[Any] = [
        f"to {change['to']} in {len(stages)} stages, {when} which {', '.join(map(str, stages))} of "
        f"{change['num_streams']} streams {how}: {change['sent_bytes']:,} bytes sent, "
        f"{change['received_bytes']:,} received, {change['num_lost_packets']} packets lost",
        f"{change['kept']} links stay, commands name {change['kept_named']} of their circuits; "
        f"a second run has {change['commands_again']} commands",
    ]
    if change["lost_bytes"]:
        rows = [(name, f"{size:,}") for name, size in change["lost_bytes"].items()]
        sections.append(Table(("circuit", "bytes lost"), rows))
    return sections


def _sections(answer: dict[str, Any]) -> list[Any]:
    from ocs_codesign.faces.web.report.rehearsals import as_loaded, collective_rows

    rows = collective_rows(answer["collectives"])
    sections: list[Any] = [
        f"up in {answer['up_s']:.1f} s; neighbours: {answer['neighbours']}",
        Table(("collective", "exact", "seconds", "simulated"), rows),
    ]
    if any(each["results_exact"] and each["seconds"] is None for each in answer["collectives"]):
        sections.append("no seconds where this machine was too busy: hosts waited for a core")
    sections.append(f"bytes as loaded {as_loaded(answer['circuits'])}")
    for each in answer["mpi"]:
        same = "equal to MPI's own bit by bit" if each["results_equal"] else "not MPI's own"
        how = "all" if each["is_carried"] else "not all"
        sections.append(
            f"over MPI: {each['name']} {same}; {each['carried_bytes']:,} bytes by the circuits, on "
            f"{how} of them as much as is loaded"
        )
    if answer["change"] is not None:
        sections += _change_sections(answer["change"])
    for fault in answer["faults"]:
        mended = {None: "not asked to repair", True: "repaired", False: "not repaired"}
        named = " or ".join(fault["named"]) or "nothing"
        why = f": {fault['sentence']}" if fault["sentence"] else ""
        sections.append(f"{fault['component']}: named {named}; {mended[fault['repaired']]}{why}")
    if "sockets" in answer:
        sections.append(
            f"the fabric stays up; switches.yaml: socket: {answer['sockets']}/{{switch}}.sock"
        )
    return sections
