"""A rehearsal: a bundle's fabric comes up, its schedules run, components fail and are repaired."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.progress import heard_by, tell_phase
from ocs_codesign.fabric.bundle.read import read_bundle
from ocs_codesign.fabric.rehearsal.controller import Refused
from ocs_codesign.fabric.rehearsal.faults import found_failed, killed_on_its_way, repair
from ocs_codesign.fabric.rehearsal.mpi import over_mpi
from ocs_codesign.fabric.rehearsal.running import Rehearsal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.fabric.deployments.deploy import BoundedDesign
    from ocs_codesign.fabric.rehearsal.network import LinkWay
    from ocs_codesign.fabric.rehearsal.running import Ran


@final
@dataclass(slots=True)
class _Asked:
    """A rehearsal with what it is asked for."""

    rehearsal: Rehearsal
    kinds: Sequence[str]
    message: int
    repair: bool
    known: set[int] = field(default_factory=set)
    told: set[str] = field(default_factory=set)

    def ran(self) -> dict[str, Ran]:
        """Every collective that is asked for, run; ValueError if what is up has none of them."""
        runs = {}
        for each in self._chosen():
            tell_phase(f"Running the {each.collective.name}")
            runs[each.collective.name] = self.rehearsal.run(each.design.schedule, self.message)
        return runs

    def over_mpi(self) -> list[dict[str, Any]]:
        """The same collectives over MPI."""
        tell_phase("Running over MPI")
        return [
            over_mpi(self.rehearsal, each.collective.name, each.design, self.message)
            for each in self._chosen()
        ]

    def _chosen(self) -> list[BoundedDesign]:
        designs = self.rehearsal.made_up().designs
        chosen = [each for each in designs if not self.kinds or each.collective.name in self.kinds]
        if not chosen:
            raise ValueError(f"what is up has no schedule of {' or '.join(self.kinds)}")
        return chosen

    def fault(self, fault: str) -> tuple[dict[str, Any], dict[str, Ran]]:
        """What comes of a component that fails in mid-collective, and of runs after its repair."""
        rehearsal = self.rehearsal
        component, _, after_s = fault.partition("@")
        tell_phase(f"Failing {component}")
        first = rehearsal.made_up().designs[0].design.schedule
        ran = rehearsal.run(first, self.message, [(component, float(after_s or 0))])
        dark = rehearsal.unheard()
        named = found_failed(rehearsal, dark, self.known, self.told)
        row: dict[str, Any] = {
            **{"component": component, "named": named, "repaired": None, "sentence": None},
            "waiting": [rehearsal.ways[link].name for link in ran.waiting],
        }
        runs: dict[str, Ran] = {}
        if self.repair:
            try:
                ports = [name for name in named if name.startswith("port:")]
                tell_phase(f"Repairing {component}")
                is_silent = component.startswith("silent:")
                repair(rehearsal, ports[0] if is_silent and ports else component)
                dark = rehearsal.unheard()
                runs = self.ran()
                row["repaired"] = not dark and all(each.is_exact for each in runs.values())
            except (Refused, ValueError) as error:
                row["repaired"], row["sentence"] = False, str(error)
        self.known, self.told = set(dark), self.told | set(named)
        return row, runs


def rehearsed(
    bundle: str,
    kinds: Sequence[str],
    message: int,
    slower: int,
    faults: Sequence[str],
    repair: bool,
    to: str | None = None,
    is_drained: bool = True,
    mpi: bool = False,
) -> dict[str, Any]:
    """All of a rehearsal: the answer of the command, in words."""
    begun = time.monotonic()
    deployment = read_bundle(bundle)
    tell_phase("Bringing up the fabric")
    rehearsal = Rehearsal.of(deployment, slower)
    rehearsal.bring_up(rehearsal.deployment.up)
    answer: dict[str, Any] = {"up": True, "up_s": round(time.monotonic() - begun, 3)}
    tell_phase("Hearing neighbours")
    heard, answer["change"], answer["faults"] = rehearsal.unheard(), None, []
    for fault in faults:
        if to is not None and fault.startswith("controller"):
            after_s = float(fault.partition("@")[2] or 0)
            answer["faults"].append(killed_on_its_way(rehearsal, to, after_s))
    if to is not None and rehearsal.deployment.up != to and not heard:
        tell_phase(f"Leading the switches to {to}")
        answer["change"] = rehearsal.change(to, is_drained)
    heard = heard or rehearsal.unheard()
    answer["neighbours"] = ", ".join(rehearsal.ways[link].name for link in heard) or "valid"
    asked = _Asked(rehearsal, kinds, message, repair, set(heard))
    runs = asked.ran()
    for fault in faults:
        if not fault.startswith("controller"):
            row, again = asked.fault(fault)
            runs = again or runs
            answer["faults"].append(row)
    answer["mpi"] = asked.over_mpi() if mpi else []
    answer["configuration"] = rehearsal.deployment.up
    return answer | _measured(runs, rehearsal.ways)


def _measured(runs: dict[str, Ran], ways: Sequence[LinkWay]) -> dict[str, Any]:
    """What ran, and bytes of every link."""
    answer: dict[str, Any] = {}
    answer["collectives"] = [
        {
            **{"name": name, "results_exact": ran.is_exact},
            "seconds": None if ran.seconds is None else round(ran.seconds, 3),
            "simulated_seconds": round(ran.simulated_s, 3),
        }
        for name, ran in runs.items()
    ]
    loads = np.array([ran.loads for ran in runs.values()]).reshape(-1, len(ways)).sum(axis=0)
    counted = np.array([ran.counted for ran in runs.values()]).reshape(-1, len(ways)).sum(axis=0)
    answer["circuits"] = [
        {"id": way.name, "loaded_bytes": int(load), "counted_bytes": int(count)}
        for way, load, count in zip(ways, loads, counted, strict=True)
    ]
    return answer


def _say(said: object) -> None:
    """A line of standard output: a phase with what is done of what, or at last the answer."""
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Rehearse what standard input asks for, and say on standard output what came of it."""
    asked = json.loads(sys.stdin.readline())
    is_kept = asked.pop("keep")
    try:
        with heard_by(lambda *phase: _say(phase)):
            answer = rehearsed(**asked)
    except (ValueError, Refused, RuntimeError, OSError) as error:
        answer = {"error": str(error)}
    _say(answer)
    while is_kept and "error" not in answer:
        signal.pause()
    os._exit(0)


if __name__ == "__main__":
    main()
