"""What is no plane problem is refused with the value and the rule."""

from __future__ import annotations

import pytest

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.planes.plan import plan_of_usage, plan_planes
from ocs_codesign.circuits.planes.problem import PlaneProblem

COST = Change(1)


def problem(**changed):
    given = {
        "configurations": (0, 1),
        "step_bytes": (4, 2),
        "num_planes": 2,
        "plane_bandwidth_Bps": 1,
        "cost": COST,
    }
    return PlaneProblem(**{**given, **changed})


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"configurations": (), "step_bytes": ()}, "0 steps: there must be 1 to 100000"),
        ({"step_bytes": (4,)}, "2 configurations for 1 sizes of steps"),
        ({"step_bytes": (4, 0)}, "step 2 moves 0 bytes: it must be more than 0"),
        ({"step_bytes": (float("nan"), 1)}, "bytes of step 1"),
        ({"num_planes": 17}, "17 planes: there must be 1 to 16"),
        ({"plane_bandwidth_Bps": 0}, "plane_bandwidth_Bps is 0: it must be positive"),
        ({"latency_s": -1}, "latency_s is -1: a time cannot be negative"),
        ({"configurations": (0, -1)}, "step 2 needs configuration -1"),
        ({"configurations": (0, 1024)}, "at most 1024, from 0"),
        ({"held": (0,)}, "1 held configurations for 2 planes"),
        ({"held": (0, -2)}, "plane 1 holds configuration -2"),
        ({"changed_circuits": 0}, "0 circuits change in a change"),
        ({"changed_circuits": []}, "a matrix for 0 configurations"),
        ({"changed_circuits": [[0, 1], [1, 0]]}, "has 2 rows for 2 configurations"),
        ({"changed_circuits": [[0, 1], [1, 1], [1, 1]]}, "none from a configuration to itself"),
        ({"changed_circuits": [[0, -1], [1, 0], [1, 1]]}, "changed circuits are counts"),
        ({"changed_circuits": [[0, 9], [1, 0], [1, 1]]}, ""),
        ({"changed_circuits": [[0], [1]]}, "step 2 needs configuration 1: there are 1, from 0"),
    ],
)
def test_what_is_refused(changed, rule):
    if not rule:
        assert problem(**changed).circuits_changed(0, 1) == 9
        return
    with pytest.raises(ValueError, match=rule):
        problem(**changed)


def test_circuits_are_counted_as_sets_are():
    matrix = [[0, 9, 1], [9, 0, 1], [1, 1, 0], [4, 4, 4]]
    with pytest.raises(ValueError, match="9 circuits change from configuration 0 to 1, but 2 over"):
        problem(changed_circuits=matrix)
    matrix = [[0, 1], [1, 0], [1, 9]]
    with pytest.raises(ValueError, match="9 circuits change from nothing to 1, but 2 over 0"):
        problem(changed_circuits=matrix)


def test_methods_say_what_they_cannot_take():
    with pytest.raises(ValueError, match="unknown method 'best': expected one of auto, labels"):
        plan_planes(problem(), "best")
    with pytest.raises(ValueError, match="labels are for steps that a barrier separates"):
        plan_planes(problem(cost=Change(1, barrier=False)), "labels")
    with pytest.raises(ValueError, match="too many for a mixed-integer program"):
        plan_planes(problem(configurations=[0] * 800, step_bytes=[1] * 800), "milp")


@pytest.mark.parametrize(
    ("usage", "rule"),
    [
        ([(0,)], "a usage of 1 steps for 2 steps"),
        ([(0,), ()], "no plane serves step 2"),
        ([(0,), (2,)], "planes 2 serve step 2: there are 2, from 0, each once"),
        ([(0, 0), (1,)], "planes 0, 0 serve step 1"),
    ],
)
def test_usages_that_are_refused(usage, rule):
    with pytest.raises(ValueError, match=rule):
        plan_of_usage(problem(), usage)
