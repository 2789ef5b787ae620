"""Bundles for the tests, and what only their tables say, read with nothing of the product."""

from __future__ import annotations

import csv
from collections import Counter

from embed_samples import fabric

from ocs_codesign.fabric.deployments.deploy import NamedRecipe, deploy
from ocs_codesign.fabric.description import PortModel, rotations
from ocs_codesign.faces.web.report.report import write_bundle
from ocs_codesign.graphs.text import parse

TWO = (("ring", "BiRing(2, 8)"), ("cube", "Circulant(8, (1, 3))"))


def named(*recipes):
    return [NamedRecipe(name, parse(text)) for name, text in recipes]


def small_fabric(model=PortModel.SIMPLEX, planes=4):
    """Ten hosts, one of them spare, and planes of twelve ports, two of them spare."""
    return fabric(10, [[12]] * planes, model, spares=2, spare_hosts=1)


def rotor_fabric():
    return fabric(8, [[8]] * 4, PortModel.RESTRICTED, states=rotations(8))


def stages_fabric():
    """Planes that are made of three stages of small switches."""
    return fabric(8, [[4] * 8] * 4, budget_db=10.0)


def small_deployment(model=PortModel.SIMPLEX):
    collectives = ("allreduce", "alltoall")
    return deploy(small_fabric(model), named(*TWO), collectives)


def written(deployment, directory):
    write_bundle(deployment, directory)
    return directory


def carried(deployment):
    """The deployment after its planned work, if there is any, was reported done."""
    return deployment.reported() if deployment.standing == "planned" else deployment


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def files_of(directory):
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def links_by_light(directory, configuration):
    """Pairs of hosts that cables and cross-connects join, walked port by port."""
    into = {}
    from_trunk = {}
    start = []
    two_way = False
    for cable in rows(directory / "cabling.csv"):
        near, far = (cable["a_device"], cable["a_port"]), (cable["b_device"], cable["b_port"])
        if cable["polarity"] == "trunk":
            from_trunk[near] = far
            continue
        two_way |= cable["polarity"] == "both"
        into[far] = near[0]
        if cable["a_strand"] in ("tx", "a", "x"):
            start.append((near[0], far, cable["a_strand"]))
    joined = {}
    for path in sorted((directory / "cross_connects" / configuration).glob("*.csv")):
        for row in rows(path):
            joined[path.name[:-4], row["a_side"]] = (path.name[:-4], row["b_side"])
    found = Counter()
    for host, here, _ in start:
        if here not in joined:
            continue
        there = joined[here]
        while there not in into:
            there = joined[from_trunk[there]]
        found[host, into[there]] += 1
        if two_way:
            found[into[there], host] += 1
    return found
