"""The registry's contracts: what is listed keeps them, and so must what is new."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import final

import numpy as np
import pytest
from graph_contracts import (
    GROUP_CONTRACTS,
    RECIPE_CONTRACTS,
    declares_what_is_built,
    mapped_schedule_does_what_was_predicted,
    prints_and_parses_back,
    symmetry_is_honest,
)
from hypothesis import given
from samples import BASE_TEXTS, EXPANSION_TEXTS, GROUP_SAMPLES, generated, texts_of
from strategies import built, recipes

from ocs_codesign.core.schedule import Schedule
from ocs_codesign.core.topology import Topology
from ocs_codesign.graphs import recipe
from ocs_codesign.graphs.families.rings import UniRing, abelian
from ocs_codesign.graphs.groups.group import Group, check_order, residue
from ocs_codesign.graphs.recipe import Base, Expanded, Recipe, Shape, Unary, Undirected, size
from ocs_codesign.graphs.registry import EXPANSIONS, FAMILIES, GROUPS
from ocs_codesign.graphs.text import parse
from ocs_codesign.search.bases import BASE_SOURCES, CLOSED_FORMS
from ocs_codesign.search.frontiers import frontier

KINDS = [
    *((FAMILIES, name, Base) for name in FAMILIES),
    *((EXPANSIONS, name, Expanded) for name in EXPANSIONS),
    *((GROUPS, name, Group) for name in GROUPS),
]
OF_ANY_RECIPE = (
    prints_and_parses_back,
    declares_what_is_built,
    symmetry_is_honest,
    mapped_schedule_does_what_was_predicted,
)


@pytest.mark.parametrize(("registry", "name", "base"), KINDS, ids=[name for _, name, _ in KINDS])
def test_every_class_is_final_documented_and_has_samples(registry, name, base):
    kind = registry[name]
    assert kind.__name__ == name
    assert issubclass(kind, base)
    assert kind.__final__
    assert kind.__doc__
    assert kind.samples


@pytest.mark.parametrize("contract", RECIPE_CONTRACTS)
@pytest.mark.parametrize("text", [*BASE_TEXTS, *EXPANSION_TEXTS])
def test_recipes(text, contract):
    assert repr(parse(text)) == text
    contract(parse(text))


@pytest.mark.parametrize("contract", OF_ANY_RECIPE)
@given(recipe=recipes())
def test_recipes_of_any_depth(contract, recipe):
    contract(recipe)


@pytest.mark.parametrize("contract", GROUP_CONTRACTS)
@pytest.mark.parametrize("sample", [s for kind in GROUP_SAMPLES.values() for s in kind], ids=repr)
def test_groups(sample, contract):
    contract(sample)


def test_a_recipe_loads_only_the_modules_of_its_classes():
    code = (
        "import sys\nfrom ocs_codesign.graphs.text import parse\n"
        "parse('Line(Cayley(Cyclic(5), (1, 2)))')\n"
        "print(*sorted(m for m in sys.modules if m.startswith('ocs_codesign.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = [name.removeprefix("ocs_codesign.") for name in done.stdout.split()]
    rooms = (
        "graphs.families.",
        "graphs.expansions.",
        "graphs.groups.",
        "schedules.",
        "search.",
        "core.lp",
    )
    assert [name for name in loaded if name.startswith(rooms)] == [
        "graphs.expansions.line",
        "graphs.families.cayley",
        "graphs.families.rings",
        "graphs.groups.cyclic",
        "graphs.groups.group",
    ]


@final
@dataclass(frozen=True, slots=True, repr=False)
class MoebiusLadder(Undirected):
    """A ring of 2k nodes with a link between opposite ones."""

    k: int

    notation = "M{}"
    samples = ("2", "3", "6")

    @property
    def shape(self) -> Shape:
        return Shape(2 * size(self.k, "k", 2), 3)

    def build(self) -> Topology:
        return abelian([2 * self.k], [(1,), (-1,), (self.k,)])


@final
@dataclass(frozen=True, slots=True, repr=False)
class Doubled(Unary):
    """Two links in place of every link."""

    g: Recipe

    notation = "2×{}"
    samples = ("UniRing(1, 4)", "MoebiusLadder(3)", "Cayley(Bits(2), (1, 2))")

    @property
    def shape(self) -> Shape:
        return Shape(self.g.num_nodes, 2 * self.g.degree)

    def build(self) -> Topology:
        return self._twice(self.g.topology())

    def _twice(self, base: Topology) -> Topology:
        return Topology(base.num_nodes, np.tile(base.tail, 2), np.tile(base.head, 2))

    def loads(self, transposed: bool) -> tuple[Fraction, ...]:
        return tuple(load / 2 for load in self.g.gather_loads(transposed=transposed))

    def schedule(self, transposed: bool) -> Schedule:
        base = self.g.gather_schedule(transposed=transposed)
        root, lo, hi, link, step = (np.tile(column, 2) for column in base.columns())
        for column, more in ((lo, base.num_chunks), (hi, base.num_chunks)):
            column[base.num_sends :] += more
        link[base.num_sends :] += base.topology.num_links
        graph, chunks = self._twice(base.topology), 2 * base.num_chunks
        return Schedule(graph, base.collective, chunks, root, lo, hi, link, step)


@final
@dataclass(frozen=True, slots=True, repr=False)
class Bits(Group):
    """Words of n bits under addition without carry."""

    n: int

    notation = "Z2^{}"
    samples = ("Bits(1), (1,)", "Bits(3), (1, 2, 4)")

    def __post_init__(self) -> None:
        check_order(2**self.n, 2, "Bits(n)")

    @property
    def order(self) -> int:
        return 2**self.n

    @property
    def is_abelian(self) -> bool:
        return True

    def index(self, element) -> int:
        return residue(element, self.order, self)

    def element(self, number: int) -> int:
        return number

    def right_multiply(self, left, right):
        return left ^ right


@pytest.fixture
def registered(monkeypatch):
    """A toy of each kind in the registry: its class and the line are all that there is to do."""
    monkeypatch.setitem(FAMILIES, "MoebiusLadder", MoebiusLadder)
    monkeypatch.setitem(EXPANSIONS, "Doubled", Doubled)
    monkeypatch.setitem(GROUPS, "Bits", Bits)
    yield
    for remembered in (built, recipe.measured_gather_loads, recipe.__dict__["_expanded_loads"]):
        remembered.cache_clear()


@pytest.mark.usefixtures("registered")
class TestToys:
    @pytest.mark.parametrize("contract", RECIPE_CONTRACTS)
    @pytest.mark.parametrize("toy", [MoebiusLadder, Doubled])
    def test_new_recipes_get_the_contracts(self, toy, contract):
        texts = texts_of({toy.__name__: toy})
        assert len(texts) == 3
        for text in texts:
            contract(parse(text))

    @pytest.mark.parametrize("contract", GROUP_CONTRACTS)
    def test_new_groups_get_the_contracts(self, contract):
        for sample in generated(Bits):
            contract(sample)

    def test_the_finder_tries_a_new_source(self, monkeypatch):
        def ladders(question, _):
            return [MoebiusLadder(question.num_nodes // 2)] if question.num_nodes > 3 else []

        monkeypatch.setitem(BASE_SOURCES, "ladders", ladders)
        answer = frontier(12, 3, effort=CLOSED_FORMS)
        scored = {c.recipe for c in (*answer.candidates, *answer.dominated)}
        assert MoebiusLadder(6) in scored

    @pytest.mark.parametrize(
        ("toy", "name", "wrong"),
        [
            (MoebiusLadder, "shape", property(lambda self: Shape(2 * self.k, 4))),
            (MoebiusLadder, "build", lambda self: abelian([2 * self.k], [(1,), (-1,)])),
            (MoebiusLadder, "loads", lambda _: (Fraction(1),)),
            (MoebiusLadder, "has_self_loops", True),
            (MoebiusLadder, "bidirectional", False),
            (MoebiusLadder, "label", lambda _: ""),
            (MoebiusLadder, "arguments", lambda self: (self.k + 1,)),
            (Doubled, "loads", lambda self, _: self.g.gather_loads()),
            (Doubled, "shape", property(lambda self: self.g.shape)),
            (Doubled, "schedule", lambda self, _: self.g.gather_schedule()),
        ],
    )
    def test_a_wrong_recipe_breaks_one(self, monkeypatch, toy, name, wrong):
        monkeypatch.setattr(toy, name, wrong)
        made, broken = toy(UniRing(1, 4)) if toy is Doubled else toy(6), 0
        for contract in RECIPE_CONTRACTS:
            try:
                contract(made)
            except (AssertionError, ValueError):
                broken += 1
        assert broken

    @pytest.mark.parametrize(
        ("name", "wrong", "contract"),
        [
            ("is_abelian", False, "is_a_group"),
            ("right_multiply", lambda _, left, right: left & right, "is_a_group"),
            ("element", lambda *_: 0, "elements_are_numbered"),
            ("label", lambda _: "", "group_prints_and_parses_back"),
        ],
    )
    def test_a_wrong_group_breaks_one(self, monkeypatch, name, wrong, contract):
        monkeypatch.setattr(Bits, name, wrong)
        (broken,) = [each for each in GROUP_CONTRACTS if each.__name__ == contract]
        with pytest.raises(AssertionError):
            broken(parse("Cayley(Bits(2), (1, 2))"))
