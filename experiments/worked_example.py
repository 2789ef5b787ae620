"""From YAML to a bundle: a fabric with four piezo planes for an expert-parallel workload.

The packaged examples are the fabric (64 hosts) and the workload (97 collectives of a training
step). The fabric is checked; what it could hold is ranked by the exact time of the workload; the
winner is deployed with its schedules into a bundle, which is verified from cables and
cross-connects up. Then two fibres are swapped: the neighbours that hosts would hear are compared
with the bundle, and the rows "observed" are what the comparison says. Rows "deployed" have the time
of the schedules that were built, in whole chunks; those "ranked" may split messages at will. Rows
of 16 hosts are about the first 16 of the 64 alone.

    python experiments/worked_example.py [--quick] [--out DIR]

writes figures/worked_example.csv and .png in half a minute; --quick runs 16 hosts.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from reporting import EXPERIMENTS, Report, Row, parse_arguments, publish

from ocs_codesign import parse
from ocs_codesign.fabric.bundle.verify import check_bundle
from ocs_codesign.fabric.deployments.deploy import Deployment, NamedRecipe, deploy
from ocs_codesign.fabric.description import Fabric, fabric_facts
from ocs_codesign.fabric.files.fabric_files import load_fabric
from ocs_codesign.fabric.files.workload import load_workload
from ocs_codesign.fabric.profiles import fabric_price
from ocs_codesign.fabric.selection.ranking import PlanKind, Selection, fat_tree_time_s, select
from ocs_codesign.fabric.selection.steps import Workload, known_options
from ocs_codesign.faces.pictures.selection import selection_figure
from ocs_codesign.faces.web.report.report import write_bundle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ocs_codesign.fabric.bundle.check.bundle import BundleVerdict

EXAMPLES = EXPERIMENTS.parent / "ocs_codesign" / "faces" / "examples"
QUICK, SIZES = (16,), (16, 64)
TOP = 8
NAME = "moe"
PLANE, FIRST, SECOND = 0, 4, 9
"""The fibres into hosts FIRST and SECOND from the switch of PLANE are swapped."""
FIELDS = ("hosts", "row", "what", "steps", "t_b", "time_ms", "count", "text")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was chosen, deployed and found."""

    selection: Selection
    deployment: Deployment
    num_files: int
    verdict: BundleVerdict
    observed: BundleVerdict


def outcome(fabric: Fabric, workload: Workload) -> Outcome:
    """The way from a fabric and a workload to a verified bundle, and swapped fibres found."""
    collectives = workload.trace.collectives
    options, serving = known_options(fabric, collectives)
    selection = select(fabric, workload, options, serving)
    winner = next(plan.name for plan in selection.ranked if plan.kind is PlanKind.SINGLE)
    deployment = deploy(fabric, [NamedRecipe(NAME, parse(winner))], collectives)
    with TemporaryDirectory() as parent:
        directory, neighbours = Path(parent) / "bundle", Path(parent) / "neighbours.csv"
        manifest = write_bundle(deployment, directory)
        verdict = check_bundle(directory)
        with neighbours.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(heard(fabric, directory))
        observed = check_bundle(directory, neighbours)
    return Outcome(selection, deployment, len(manifest["files"]) + 1, verdict, observed)


def heard(fabric: Fabric, directory: Path) -> Iterator[tuple[str, str, str, str]]:
    """What hosts hear with two fibres swapped, as a file of observed neighbours."""
    yield "local_host", "local_port", "remote_host", "remote_port"
    first, second = fabric.hosts[FIRST], fabric.hosts[SECOND]
    other = {first: second, second: first}
    with (directory / "links" / f"{NAME}.csv").open(encoding="utf-8", newline="") as file:
        for link in csv.DictReader(file):
            here = link["to_host"]
            if int(link["plane"]) == PLANE:
                here = other.get(here, here)
            port = f"p{link['plane']}"
            yield here, port, link["from_host"], port


def rows(fabric: Fabric, workload: Workload, found: Outcome) -> Iterator[Row]:
    """The table, from top to bottom in the order of the work."""
    facts, prices = fabric_facts(fabric), fabric_price(fabric)
    yield {"row": "fabric", "what": "planes", "count": len(facts.planes)}
    yield {"row": "fabric", "what": "findings", "count": len(facts.findings)}
    yield {"row": "fabric", "what": "estimate in USD", "count": round(prices.total_usd)}
    shown = [*enumerate(found.selection.ranked[:TOP], 1), *found.selection.baselines]
    for rank, plan in dict(shown).items():
        total = f"{float(plan.total_s) * 1e3:.4f}"
        yield {"row": "ranked", "what": f"rank {rank}", "time_ms": total, "text": plan.name}
    bound = f"{float(fat_tree_time_s(fabric, workload)) * 1e3:.4f}"
    yield {"row": "ranked", "what": "bound", "time_ms": bound, "text": "fat tree of as many ports"}
    yield {"row": "ranked", "what": "all plans", "count": len(found.selection.ranked)}
    (one,) = found.deployment.configurations
    for part in workload.jobs:
        bounded = next(each for each in one.designs if each.collective == part.collective)
        cost = bounded.design.cost
        time = part.count * cost.time_s(fabric.cost_model, float(part.message_bytes))
        yield {
            "row": "deployed",
            "what": part.name,
            "steps": cost.steps,
            "t_b": str(cost.t_b),
            "time_ms": f"{time * 1e3:.4f}",
            "count": part.count,
            "text": part.collective.name,
        }
    yield {"row": "bundle", "what": "cables", "count": 2 * one.configuration.num_circuits}
    yield {"row": "bundle", "what": "files", "count": found.num_files}
    yield {"row": "verified", "what": "findings", "count": found.verdict.num_findings}
    (comparison,) = found.observed.observed
    for difference in comparison.differences:
        yield {"row": "observed", "what": difference.kind, "text": difference.sentence}


def table(sizes: tuple[int, ...]) -> tuple[list[Row], Figure]:
    """The rows of all sizes and the picture of the last."""
    whole = load_fabric(EXAMPLES / "fabric64.yaml")
    workload = load_workload(EXAMPLES / "moe_workload.yaml")
    lines: list[Row] = []
    for num_hosts in sizes:
        fabric = replace(whole, name=f"fabric{num_hosts}", hosts=whole.hosts[:num_hosts])
        found = outcome(fabric, workload)
        lines += [{"hosts": num_hosts, **row} for row in rows(fabric, workload, found)]
    return lines, selection_figure(found.selection, TOP)


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    lines, picture = table(QUICK if arguments.quick else SIZES)
    publish(Report("worked_example", FIELDS, lines, picture), arguments)


if __name__ == "__main__":
    main()
