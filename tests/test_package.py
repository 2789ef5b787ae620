"""The front door: every public name is there, loaded when it is first used."""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib import import_module
from inspect import isfunction, signature
from itertools import chain
from pathlib import Path

import pytest
from folders import ROOT, nodes
from packaging.version import Version

import ocs_codesign
import ocs_codesign as oc

SOURCE = Path(ocs_codesign.__file__)
NAMES = sorted(ocs_codesign.__all__)
PARTS = sorted(set(dir(ocs_codesign)) - set(NAMES))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_resolves_to_the_object_of_its_module(name):
    value = getattr(ocs_codesign, name)
    assert value.__name__ == name
    assert value.__doc__
    assert getattr(import_module(value.__module__), name) is value


def test_names_for_type_checkers_are_the_same():
    """Of the package and of each of its parts; the stubs are made of the tables of names."""
    command = [sys.executable, str(ROOT / ".ci/public_names.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("part", PARTS)
def test_no_part_of_a_package_hides_a_name_of_it(part):
    package = import_module(f"ocs_codesign.{part}")
    modules = {path.stem for path in Path(package.__file__).parent.iterdir()}
    for name in getattr(package, "__all__", []):
        assert name not in modules
        value = getattr(package, name)
        assert value.__module__.startswith(f"{package.__name__}.")
        assert getattr(import_module(value.__module__), name) is value


def test_names_are_listed():
    assert set(NAMES) <= set(dir(ocs_codesign))
    assert ocs_codesign.__version__.count(".") == 2
    assert (SOURCE.parent / "py.typed").is_file()


def test_unknown_names_are_unknown():
    with pytest.raises(AttributeError, match=r"no attribute 'optimise'$"):
        ocs_codesign.optimise  # noqa: B018


def test_a_name_of_a_part_is_shown_the_way():
    with pytest.raises(AttributeError, match=r"'Kautz': it is ocs_codesign\.graphs\.Kautz"):
        ocs_codesign.Kautz  # noqa: B018


def test_the_shortest_way_from_a_text_to_a_verified_design():
    recipe = ocs_codesign.parse("Line(CompleteBipartite(4))")
    design = ocs_codesign.build(recipe, "allreduce")
    assert ocs_codesign.verify(design.schedule, claimed=design.cost).ok
    assert design.cost == ocs_codesign.measure(recipe, "allreduce").cost


FUNCTIONS = [name for name in oc.__all__ if isfunction(getattr(oc, name))]


@pytest.mark.parametrize("wrong", ["Torus((3, 3))", 3, None, [1, 2]], ids=repr)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_wrong_kind_of_argument_is_told_and_no_attribute_of_ours(name, wrong):
    function = getattr(oc, name)
    parameters = signature(function).parameters.values()
    needed = [each for each in parameters if each.default is each.empty]
    named = {each.name: wrong for each in needed if each.kind is each.KEYWORD_ONLY}
    with suppress(ValueError, TypeError, OSError):
        function(*[wrong] * (len(needed) - len(named)), **named)


def test_public_functions_are_those_of_their_modules():
    assert pickle.loads(pickle.dumps(oc.build)) is oc.build
    with pytest.raises(TypeError, match="allocate takes problem: BudgetProblem; 3 is none"):
        oc.allocate(3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'text'"):
        oc.parse_network()


READERS = [
    (package, name)
    for package in ("graphs", "schedules", "fabric", "jobs")
    for name in getattr(oc, package).__all__
    if name.startswith(("parse", "load", "import", "read"))
]


@pytest.mark.parametrize(("package", "name"), READERS)
def test_readers_say_what_they_take(package, name, tmp_path):
    """Of what is no text and no path the kind is told; of the rest, what is not there."""
    read = getattr(getattr(oc, package), name)
    told = rf"{name} takes .* is none|it is empty|must be called"
    for wrong in (3, None, [1], {}, b"x", 1.5, object()):
        with pytest.raises((TypeError, ValueError), match=told):
            read(wrong)
    for path in (str(tmp_path), "", "nosuch"):
        with suppress(ValueError, OSError):
            read(path)


def test_what_public_functions_return_has_a_short_repr():
    """Its own, or that of Brief; numbers have what dataclass makes, recipes are their text."""
    classes = {node.name: node for _, node in nodes() if isinstance(node, ast.ClassDef)}
    told = " ".join(str(getattr(oc, name).__annotations__["return"]) for name in FUNCTIONS)
    returned = {name for name in re.findall(r"\w+", told) if name in classes}
    assert len(returned) > 25
    bases = {name: {ast.unparse(base) for base in classes[name].bases} for name in returned}
    own = {name for name in returned if "def __repr__" in ast.unparse(classes[name])}
    brief = {name for name in returned if "Brief" in bases[name]}
    assert returned - own - brief == {"Allocation", "Recipe", "Witness"}


def test_versions_that_were_tested_are_exact_and_allowed():
    """The constraint file pins every requirement to a version, not below its bound."""
    lines = (ROOT / "tests" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for requirement in chain(project["dependencies"], *extras.values()):
        name, bound = requirement.split(">=")
        assert Version(pinned[name]) >= Version(bound), requirement


def test_the_stages_of_the_gate_are_described():
    """In CONTRIBUTING, each in the order of `.ci/run`, which refuses others."""
    gate = ROOT / ".ci" / "run"
    stages = re.search(r"^stages=\((.*)\)$", gate.read_text(encoding="utf-8"), re.M)[1].split()
    described = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = re.search(r"^\| stage \|.*?\n\n", described, re.M | re.S)[0]
    named = [name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in row.split(", ")]
    assert named == [f"`{stage}`" for stage in stages]
    command = ["bash", str(gate), "no-such-stage"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no stage 'no-such-stage'; the stages are install format" in done.stderr


def test_every_line_of_slow_tests_is_a_test(slow_without_test):
    """Known where all tests are collected, as in every run of the gate."""
    assert not slow_without_test
