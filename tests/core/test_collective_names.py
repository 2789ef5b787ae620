"""Whatever takes a collective takes its name, and says what is wrong with another value."""

import importlib
import inspect

import numpy as np
import pytest

import ocs_codesign as oc
from ocs_codesign.core.collective import Collective
from ocs_codesign.core.networks.builders import star

PACKAGES = ("", ".core", ".schedules", ".search", ".circuits", ".fabric")
CALLS = {
    "allreduce_pipelines": lambda given: oc.schedules.allreduce_pipelines(star(3, 2), given),
    "bfb": lambda given: oc.bfb("Complete(3)", given),
    "bound": lambda given: oc.bound(9, 4, given),
    "build": lambda given: oc.build("Complete(3)", given),
    "build_sequence": lambda given: oc.circuits.build_sequence(["Complete(3)"], given),
    "build_topology": lambda given: oc.schedules.build_topology("Complete(3)", given),
    "contenders": lambda given: oc.contenders(star(3, 2), given),
    "demand_of": lambda given: oc.core.demand_of(given, 3),
    "exact_answers": lambda given: list(oc.schedules.exact_answers("Complete(3)", 1, 1, given)),
    "exact_frontier": lambda given: oc.schedules.exact_frontier("Complete(3)", 1, 1, given),
    "exact_schedule": lambda given: oc.exact_schedule("Complete(3)", 1, 1, given),
    "forests": lambda given: oc.forests(star(3, 2), given),
    "fractional_bound": lambda given: oc.schedules.fractional_bound("Complete(3)", 1, given),
    "frontier": lambda given: oc.frontier(8, 3, given),
    "measure": lambda given: oc.measure("Complete(3)", given),
    "measure_topology": lambda given: oc.measure_topology("Complete(3)", given),
    "messages_on": lambda given: oc.schedules.messages_on("Complete(3)", "direct", given, {}),
    "optimum": lambda given: oc.optimum(star(3, 2), given),
    "phased": lambda given: oc.schedules.phased("Complete(3)", given, [np.arange(6)]),
    "predict": lambda given: oc.predict("Complete(3)", given),
    "reconfigured_frontier": lambda given: oc.circuits.reconfigured_frontier(4, 2, given),
    "score_cluster": None,  # of a cluster, which tests/fabric build
    "survivability": None,
    "synthesis": lambda given: oc.synthesis("Complete(3)", given),
    "topology_bound": lambda given: oc.topology_bound("Complete(3)", given),
}


def takers():
    for package in PACKAGES:
        module = importlib.import_module(f"ocs_codesign{package}")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value):
                parameters = inspect.signature(value).parameters.values()
                if any("Collective" in str(one.annotation) for one in parameters):
                    yield name, {one.name: str(one.annotation) for one in parameters}


def test_all_that_take_a_collective_take_its_name():
    found = dict(takers())
    assert {name for name, wants in found.items() if "collective" in wants} == set(CALLS)
    assert all("str" in wants.get("collective", "str") for wants in found.values())


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if call is not None])
def test_a_wrong_one_is_told(name):
    call = CALLS[name]
    text = "allreduce" if name in ("allreduce_pipelines", "reconfigured_frontier") else "allgather"
    call(text)
    call(Collective(text))
    with pytest.raises(ValueError, match="unknown collective 'allgathr'"):
        call("allgathr")
    with pytest.raises(ValueError, match="collective 'broadcast', which has a root"):
        call("broadcast")
    with pytest.raises(ValueError, match="collective is 42: it must be a Collective"):
        call(42)


def test_verify_takes_designs_and_says_what_is_none(tmp_path):
    design = oc.build("Torus((3, 3))", "allgather")
    assert oc.verify(design).cost == oc.verify(design.schedule).cost
    oc.save_design(design, tmp_path / "d")
    assert oc.verify(oc.load_design(tmp_path / "d")).ok
    for given in ("Torus((3, 3))", 42, None):
        with pytest.raises(ValueError, match="is no schedule: build makes one of a recipe"):
            oc.verify(given)
