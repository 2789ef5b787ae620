"""Step lists: CSV and JSON say the same; every error names the file, the place and the rule."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from ocs_codesign.circuits.change import Change
from ocs_codesign.circuits.planes.problem import PlaneProblem
from ocs_codesign.circuits.step_files import MAX_STEP_BYTES, StepList, parse_steps, read_steps

CSV = """\
# two directions of a ring, then a star
configuration, size, count
ring, 4MB, 2

"the star", 1 MiB,1
ring, .5kB, 1
"""
STEPS = [
    {"configuration": "ring", "size": "4MB", "count": 2},
    {"configuration": "the star", "bytes": 2**20},
    {"configuration": "ring", "size": ".5kB"},
]
READ = StepList(
    ("ring", "the star"), (0, 0, 1, 0), tuple(map(Fraction, (4 * 10**6, 4 * 10**6, 2**20, 500)))
)
RING = [[0, 1], [1, 2], [2, 0]]


def written(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("s.csv", CSV),
        ("s.json", json.dumps(STEPS)),
        ("s", json.dumps({"steps": STEPS})),
        ("s.csv", "count,bytes,configuration\n2,4e6,ring\n1,1048576,the star\n1,500.,ring\n"),
    ],
)
def test_the_same_steps(tmp_path, name, content):
    assert read_steps(written(tmp_path, name, content)) == READ


def test_the_shipped_example():
    steps = read_steps("ocs_codesign/faces/examples/steps.csv")
    assert steps.names == ("away-4", "away-2", "away-1")
    assert steps.configurations == (0, 1, 2, 2, 1, 0)
    assert sum(steps.step_bytes) == 112 * 2**20


def test_circuits_of_configurations_are_counted():
    content = {
        "configurations": {"ring": RING, "back": [[1, 0], [2, 1], [0, 2]], "half": [[0, 1]]},
        "steps": [
            {"configuration": "half", "size": "1kB"},
            {"configuration": "ring", "size": "2B"},
        ],
    }
    steps = parse_steps(json.dumps(content).encode(), "s.json", is_json=True)
    assert steps.names == ("ring", "back", "half")
    assert steps.configurations == (2, 0)
    assert steps.changed_circuits == ((0, 3, 0), (3, 0, 1), (2, 3, 0), (3, 3, 1))
    cost = Change(1)
    PlaneProblem(
        *(steps.configurations, steps.step_bytes, 2, 1, cost),
        changed_circuits=steps.changed_circuits,
    )


def test_names_of_configurations():
    assert READ.index("the star") == 1
    with pytest.raises(ValueError, match="no configuration 'mesh': there are ring, the star"):
        READ.index("mesh")
    numbers = parse_steps(b'[{"configuration": 7, "bytes": 1}]', "s.json", is_json=True)
    assert numbers.names == ("7",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "s.csv: the file is empty: at least one step is needed"),
        ("configuration,size\n", "s.csv: there are no steps: at least one is needed"),
        ("configuration\nring\n", "s.csv, line 1: there is no size: every step has one"),
        ("configuration,size,bytes\n", "line 1: both size and bytes are given: only one can be"),
        ("configuration,size\nring,0B\n", "line 2: size is 0: it must be more than 0"),
        ("configuration,bytes\nring,1e30\n", "line 2: bytes is 1e+30: it must be"),
        ("configuration,bytes\nring,4MB\n", "line 2: bytes is '4MB': it must be a number"),
        (
            "configuration,size\n\x07,4MB\n",
            "line 2: configuration: '\\x07' is not a name of a configuration",
        ),
        (
            "configuration,size,count\nring,4MB,100001\n",
            "line 2: count is 100001: it must be from 1 to 100000",
        ),
    ],
)
def test_bad_csv(tmp_path, content, said):
    with pytest.raises(ValueError, match=r"s\.csv") as error:
        read_steps(written(tmp_path, "s.csv", content))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "s.json: there are no steps"),
        (3, "s.json: a step list is a list of steps"),
        (
            {"steps": [], "planes": 2},
            "s.json: the step list names 'planes': known are steps, configurations",
        ),
        ([{"configuration": "a", "bytes": "x"}], "[0].bytes is 'x'"),
        ([{"configuration": ["a"], "bytes": 1}], "is not a name of a configuration"),
        ([{"configuration": "a" * 99, "bytes": 1}], "is not a name of a configuration"),
    ],
)
def test_bad_json(tmp_path, value, said):
    with pytest.raises(ValueError, match=r"s\.json") as error:
        read_steps(written(tmp_path, "s.json", json.dumps(value)))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("circuits", "said"),
    [
        ([], "configurations is []: it names lists of circuits"),
        ({"ring": []}, "configurations.ring is []: it is a list of circuits"),
        ({"ring": [[0]]}, "configurations.ring[0] is [0]: a circuit is two ports"),
        ({"ring": [[0, -1]]}, "a circuit is two ports, numbers from 0"),
        ({"ring": [[0, 1], [0, 1]]}, "configurations.ring[1]: the circuit [0, 1] is there twice"),
        ({"ring": [[0, 1], [0, 2]]}, "configurations.ring: two circuits begin at port 0"),
        ({"ring": [[0, 1], [2, 1]]}, "configurations.ring: two circuits end at port 1"),
        ({"mesh": RING}, "steps[0]: configuration 'ring' has no circuits"),
        ({str(at): [[0, 1]] for at in range(513)}, "circuits of more than 512 are not read"),
    ],
)
def test_bad_circuits(circuits, said):
    value = {"configurations": circuits, "steps": [{"configuration": "ring", "size": "1B"}]}
    with pytest.raises(ValueError, match=r"^s\.json: ") as error:
        parse_steps(json.dumps(value).encode(), "s.json", is_json=True)
    assert said in str(error.value)


def test_sizes_are_limited(tmp_path):
    with pytest.raises(ValueError, match="more than 16 MiB are not read"):
        read_steps(written(tmp_path, "s.csv", b"#" * (MAX_STEP_BYTES + 1)))
    many = "configuration,size\n" + "".join(f"c{at},1B\n" for at in range(1025))
    with pytest.raises(ValueError, match="line 1026: more than 1024 configurations"):
        read_steps(written(tmp_path, "s.csv", many))
