"""The front door: every public name is there, loaded when it is first used."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import ocs_codesign

SOURCE = Path(ocs_codesign.__file__)
NAMES = sorted(set(ocs_codesign.__all__) - {"__version__"})


@pytest.mark.parametrize("name", NAMES)
def test_every_name_resolves_to_the_object_of_its_module(name):
    value = getattr(ocs_codesign, name)
    assert value.__name__ == name
    assert value.__doc__
    assert getattr(import_module(value.__module__), name) is value


def test_names_for_type_checkers_are_the_same():
    block = next(
        node
        for node in ast.parse(SOURCE.read_text(encoding="utf-8")).body
        if isinstance(node, ast.If)
    )
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    listed = sorted(str(alias.asname) for node in imports for alias in node.names)
    assert listed == NAMES
    for node in imports:
        module = import_module(str(node.module))
        for alias in node.names:
            assert getattr(module, alias.name) is getattr(ocs_codesign, alias.name)


def test_names_are_listed():
    assert set(NAMES) <= set(dir(ocs_codesign))
    assert ocs_codesign.__version__.count(".") == 2
    assert (SOURCE.parent / "py.typed").is_file()


def test_unknown_names_are_unknown():
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        ocs_codesign.optimise  # noqa: B018


def test_the_shortest_way_from_a_text_to_a_verified_design():
    recipe = ocs_codesign.parse("Line(CompleteBipartite(4))")
    design = ocs_codesign.build(recipe, "allreduce")
    assert ocs_codesign.verify(design.schedule, claimed=design.cost).ok
    assert design.cost == ocs_codesign.measure(recipe, "allreduce").cost
