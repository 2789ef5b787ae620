"""Twenty designs and four collectives out and in again: the same cost, the same bytes on links."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from alltoall_samples import bipartite, complete, one_way_ring, two_way_ring
from plan_samples import CARRIED_BY_CSV, plans
from simulate_samples import every_pair

from ocs_codesign.core.network import Network
from ocs_codesign.core.plans import Plan
from ocs_codesign.core.schedule import Messages
from ocs_codesign.graphs.text import parse
from ocs_codesign.interop.chakra.check import checked_traces, write_chakra
from ocs_codesign.interop.exports import exported, imported
from ocs_codesign.interop.registry import FORMATS, told_format
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.design import build
from ocs_codesign.verification.schedules import verify

RECIPES = (
    *("UniRing(1,4)", "UniRing(2,5)", "BiRing(2,6)", "BiRing(4,7)", "Complete(4)", "Complete(5)"),
    *("CompleteBipartite(2)", "CompleteBipartite(3)", "Hypercube(3)", "Torus((3,3))"),
    *("Torus((2,4))", "Torus((3,4))", "DirectedCirculant(7, (1,2))", "Circulant(9,(1,2))"),
    *("Torus((2,2,2))", "Complete(7)"),
    *("Line(Complete(3))", "Degree(Complete(3),2)", "Kautz(2,2)", "DeBruijn(2,3)"),
)
GATHERING = ("allgather", "reduce-scatter", "allreduce")


@cache
def every_plan() -> dict[str, Plan]:
    """Plans of designs by name, all-to-alls and classics among them."""
    found = {
        f"{recipe} {collective}": build(parse(recipe), collective).schedule
        for recipe in RECIPES
        for collective in GATHERING
    }
    found |= plans()
    found |= {f"all-to-all {nodes}": complete(nodes) for nodes in (2, 3, 5, 6)}
    found |= {f"all-to-all ring {nodes}": one_way_ring(nodes) for nodes in (3, 4, 7)}
    found |= {f"all-to-all both ways {nodes}": two_way_ring(nodes) for nodes in (4, 5, 6)}
    found |= {"all-to-all bipartite": bipartite(3)}
    for name in ("ring", "bruck", "pat", "direct", "rabenseifner", "swing", "bucket"):
        for collective in (*GATHERING, "alltoall"):
            algorithm = CLASSIC[name]
            if collective in algorithm.makers or collective in algorithm.collectives:
                options = {"dims": (2, 4)} if "dims" in algorithm.options else {}
                found[f"{name} {collective}"] = algorithm.messages(collective, 8, **options)
    return found


def written(plan: Plan, directory: Path, to: str) -> Path:
    """The file that an export of a plan has first."""
    contents = FORMATS[to].write(exported("it", plan, network_of(plan)))
    for file, content in contents.items():
        (directory / file).write_bytes(content)
    return directory / next(file for file in contents if "links" not in file)


def network_of(plan: Plan) -> Network:
    """The links of a schedule, or a link between any two ranks."""
    topology = every_pair(plan.num_ranks) if isinstance(plan, Messages) else plan.topology
    hosts = topology.num_nodes if isinstance(plan, Messages) else plan.num_hosts
    ones = [1] * topology.num_links
    return Network(hosts, topology.num_nodes, topology.tail, topology.head, ones)


@pytest.mark.parametrize("name", every_plan())
def test_traces_meet_and_move_the_bytes_of_the_plan(name, tmp_path):
    plan = every_plan()[name]
    export = exported("it", plan, network_of(plan), message_bytes=12_345)
    for file, content in write_chakra(export).items():  # compares the bytes with the plan's
        (tmp_path / file).write_bytes(content)
    found = checked_traces(tmp_path / "it.0.et")
    assert found.witness is None
    ranks = plan.num_ranks if isinstance(plan, Messages) else plan.num_hosts
    assert dict(found.facts)["ranks"] == ranks


CARRIED = [
    (name, to)
    for name in plans()
    for to in ("json", "npz", "csv", "program-json", "program-npz")
    # Switches are no ranks, so alone they are costed with what they can do, as designs are.
    if name != "switch" and (to != "csv" or name in CARRIED_BY_CSV)
]


@pytest.mark.parametrize(("name", "to"), CARRIED)
def test_the_same_cost_comes_back(name, to, tmp_path):
    plan = plans()[name]
    path = written(plan, tmp_path, to)
    assert told_format(path) in (to, None)  # a plain npz is told to be a design
    found = imported(path, to)
    assert found.witness is None
    if isinstance(plan, Messages):
        assert found.verdict.cost.steps == plan.num_steps
    elif name == "weighted" and to.startswith("program"):
        assert found.verdict.cost.steps == plan.num_steps  # programs do not know speeds
    else:
        assert found.verdict.cost == verify(plan).cost
