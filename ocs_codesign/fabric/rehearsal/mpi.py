"""Open MPI over the circuits of a rehearsal: ranks where hosts are, what they send by the links."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign.fabric.rehearsal.jobs import words_of
from ocs_codesign.fabric.rehearsal.kernel import batch
from ocs_codesign.fabric.rehearsal.network import address_of
from ocs_codesign.fabric.rehearsal.running import counted_bytes, loaded_bytes
from ocs_codesign.schedules.files.designs import save_design

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.fabric.rehearsal.running import Rehearsal
    from ocs_codesign.schedules.design import Design


_PLACE, _NETWORK, _PATIENCE_S = Path("/run/mpi"), "10.255.0.0/16", 300
_AGENT = """#!/bin/sh
host=$1; shift
exec ip netns exec "$(cat /run/mpi/$host)" unshare --uts sh -c "hostname $host; $*"
"""
"""What mpirun calls in place of ssh: names of hosts are their addresses, as no names are known."""


def over_mpi(rehearsal: Rehearsal, name: str, design: Design, message: int) -> dict[str, Any]:
    """What ``run`` says of a design whose ranks are in the namespaces of the hosts.

    MPI has headers and a collective of its own: what links carried is at least what is loaded on
    them, or ``is_carried`` is false. Raises RuntimeError if it did not run.
    """
    fabric, hosts = rehearsal.fabric, rehearsal.made_up().configuration.host.tolist()
    _lead(rehearsal)
    save_design(design, _PLACE / name)
    before = fabric.counters()
    is_equal = _is_equal(hosts, [str(_PLACE / name), "--message", f"{message}B"])
    after = fabric.counters()
    loads, carried = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    chunk = 8 * words_of(design.schedule, message)
    for way, load in zip(rehearsal.ways, loaded_bytes(design.schedule, chunk), strict=True):
        if way.tail != way.head:  # of links side by side MPI uses one
            loads[way.tail, way.head] += load
            carried[way.tail, way.head] += counted_bytes(way, before, after)
    is_carried = all(carried[pair] >= load for pair, load in loads.items())
    moved = {"carried_bytes": sum(carried.values()), "is_carried": is_carried}
    return {"name": name, "results_equal": is_equal, **moved}


def _lead(rehearsal: Rehearsal) -> None:
    """Let what a host sends to another go by their circuit, if they have one."""
    fabric = rehearsal.fabric
    _PLACE.mkdir(exist_ok=True)
    (_PLACE / "agent").write_text(_AGENT)
    (_PLACE / "agent").chmod(0o700)
    for host in fabric.hosts:
        (_PLACE / address_of(host)).write_text(f"{fabric.space(host)}\n")
    batch(["ip"], ["link set lo up", "address replace 10.255.255.254/16 dev mgmt"])
    ways = sorted(way for way in rehearsal.ways if way.tail != way.head)
    for tail, rows in groupby(ways, lambda way: way.tail):
        lines = [
            f"route replace {address_of(way.head)}/32 dev {way.leaves} src {address_of(tail)}"
            for way in rows
        ]
        batch(["ip", "-n", fabric.space(tail)], lines)


def _is_equal(hosts: Sequence[int], rest: Sequence[str]) -> bool:
    """Whether all ranks have what MPI's own collective gives."""
    only = dict.fromkeys(("btl_tcp_if_include", "oob_tcp_if_include"), _NETWORK)
    asked = {"btl": "tcp,self", "pml": "ob1", "plm_rsh_agent": f"{_PLACE}/agent", **only}
    asked["mpi_yield_when_idle"] = "1"
    words = ["mpirun", "--allow-run-as-root", "-n", str(len(hosts))]
    words += [word for key, value in asked.items() for word in ("--mca", key, value)]
    words += ["-H", ",".join(map(address_of, hosts)), sys.executable, "-m", "ocs_codesign", "run"]
    done = subprocess.run(
        [*words, *rest, "--time-limit", f"{_PATIENCE_S}s", "--json", "-"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(_PLACE), "OMP_NUM_THREADS": "1"},
    )
    try:
        return bool(json.loads(done.stdout)["ok"])
    except (ValueError, KeyError, TypeError):
        said = " ".join((done.stderr or done.stdout).split())
        raise RuntimeError(f"mpirun ended with code {done.returncode}: {said[:400]}") from None
