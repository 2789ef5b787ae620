"""Planes of several makes of switch: each waits for its own, in plans, runbooks and rankings."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from bundle_samples import named, small_fabric, written
from embed_samples import profile

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.legs.options import recipe_options
from ocs_codesign.circuits.legs.trace import Job, Trace
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.quantities import format_time
from ocs_codesign.fabric.bundle.verify import check_bundle
from ocs_codesign.fabric.deployments.deploy import deploy
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embedding.embed import embed
from ocs_codesign.fabric.selection.steps import legs_problem

RECIPES = named(("a", "Circulant(8, (1, 2))"), ("b", "Circulant(8, (1, 3))"))


def makes(overlap, model=PortModel.SIMPLEX):
    """Four planes whose makes of switch differ in dead time."""
    made = small_fabric(model)
    changes = [Change(k, Fraction(k, 10), overlap=overlap) for k in range(1, 5)]
    switches = [
        replace(each, profile=replace(profile(model, 12), change=changes[each.plane]))
        for each in made.switches
    ]
    return replace(made, switches=tuple(switches)), changes


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("model", [PortModel.SIMPLEX, PortModel.MATCHING])
def test_every_plane_waits_for_its_own_switches_in_plans_and_runbooks(overlap, model, tmp_path):
    fabric, changes = makes(overlap, model)
    deployment = deploy(fabric, RECIPES, ["allgather"])
    directory = written(deployment, tmp_path / "bundle")
    assert check_bundle(directory).ok
    for change in deployment.changes:
        planes = change.after.plane
        for stage in change.stages:
            made = np.unique(change.after.circuit[stage.create])
            counts = np.bincount(planes[made], minlength=4).tolist()
            waits = (
                changes[plane].dead_time_s(count if overlap else len(made))
                for plane, count in enumerate(counts)
                if count
            )
            assert stage.dead_time_s == max(waits)
        name = f"plans/{change.before.name}-to-{change.after.name}"
        summary = json.loads((directory / f"{name}.json").read_text(encoding="utf-8"))
        assert Fraction(summary["dead_time_s"]) == change.dead_time_s
        book = (directory / f"{name}.md").read_text(encoding="utf-8")
        told = re.findall(r"Wait for (.+?) and check", book)
        assert told == [format_time(float(stage.dead_time_s)) for stage in change.stages]


@pytest.mark.parametrize("overlap", [True, False])
def test_rankings_charge_what_plans_do(overlap):
    fabric, changes = makes(overlap)
    options = recipe_options([one.recipe for one in RECIPES], [Collective.ALLGATHER])
    first = embed(fabric, options[0].topology)
    held = [first, embed(fabric, options[1].topology, cabling=first.cabling)]
    legs = Trace([Job("allgather", 1)], 1).legs().priced(options, fabric.cost_model)
    delta = legs_problem(legs, held).delta
    for before, after in ((0, 1), (1, 0)):
        pairs = [
            {(p, a, b) for p, a, b in zip(planes.plane, planes.a_node, planes.b_node, strict=True)}
            for planes in (held[before].planes, held[after].planes)
        ]
        come = [plane for plane, _, _ in pairs[1] - pairs[0]]
        waits = (
            changes[plane].dead_time_s(come.count(plane) if overlap else len(come))
            for plane in set(come)
        )
        assert delta[before, after] == max(waits)
