"""The designs that groups of servers could hang on: those of the pool, each size looked up once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.graphs.families.rings import DirectedCirculant
from ocs_codesign.question import Question
from ocs_codesign.reconfigure.hold.forests import with_contenders
from ocs_codesign.reconfigure.hold.options import recipe_option, serving_options
from ocs_codesign.search.baselines import baseline_recipes
from ocs_codesign.search.catalogue.store import Catalogue
from ocs_codesign.search.effort import Effort
from ocs_codesign.search.joint import designs_serving
from ocs_codesign.search.search import measured_designs

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from ocs_codesign.cost import CostModel
    from ocs_codesign.graphs.recipe import Recipe
    from ocs_codesign.reconfigure.hold.options import FabricOption

SHORT_SEARCH = Effort(work=2**12)
"""How long a size is searched for that the catalogue does not have."""
MAX_SEARCHED = 32
"""Largest size that is searched as ``select`` does where the catalogue has it without a search."""
MAX_ALLTOALL = 128
"""Largest group whose all-to-all is solved in passing."""


@final
@dataclass(slots=True)
class DesignBook:
    """Options by nodes and ports, as ``select`` and ``plan`` take them from the pool.

    ``unsearched`` are larger sizes for which no search is stored, whose designs are those that are
    known, or that a short search finds.
    """

    on_phase: Callable[[str], None] | None = None
    unsearched: set[tuple[int, int]] = field(default_factory=set)
    _options: dict[tuple[int, int, bool], tuple[FabricOption, ...]] = field(default_factory=dict)
    _to_all: dict[tuple[int, int, bool], FabricOption] = field(default_factory=dict)
    _packed: dict[FabricOption, FabricOption] = field(default_factory=dict)

    def options(
        self, num_nodes: int, num_ports: int, *, exchanges: bool
    ) -> tuple[FabricOption, ...]:
        """The designs that no other beats, ring and torus beside them; ``exchanges``: all-to-all.

        Where all-to-alls are too large to solve, none has a cost of it and there are no options.
        """
        key = num_nodes, num_ports, exchanges
        if key not in self._options:
            self._options[key] = self._looked_up(Question(num_nodes, num_ports), exchanges)
        return self._options[key]

    def _looked_up(self, question: Question, exchanges: bool) -> tuple[FabricOption, ...]:
        if exchanges and question.num_nodes > MAX_ALLTOALL:
            return ()
        if self.on_phase is not None:
            self.on_phase(f"Designs of {question.num_nodes} nodes with {question.degree} ports")
        effort, known = None, None
        with Catalogue() as store:
            origin, entries = store.provenance(question), store.entries(question)
        is_searched = origin is not None and origin.work >= Effort().work
        if not is_searched and question.num_nodes > MAX_SEARCHED:
            self.unsearched.add((question.num_nodes, question.degree))
            if entries:
                known = [entry.design() for entry in entries]
                known += measured_designs(baseline_recipes(question))
            else:
                effort = SHORT_SEARCH
        wanted = [Collective.ALLGATHER, *[Collective.ALLTOALL] * exchanges]
        serving = designs_serving(question, wanted, effort=effort, known=known)
        return tuple(serving_options(serving, wanted))

    def options_of_servers(
        self, num_servers: int, num_ports: int, *, exchanges: bool
    ) -> tuple[FabricOption, ...]:
        """The same of servers with many ports: also circuits to all others, as many to each.

        What of the ports is left over then is not used.
        """
        options = self.options(num_servers, num_ports, exchanges=exchanges)
        many = num_ports // (num_servers - 1)
        if not many or num_servers > MAX_ALLTOALL:
            return options
        key = num_servers, many * (num_servers - 1), exchanges
        if key not in self._to_all:
            recipe = DirectedCirculant(num_servers, tuple(range(1, num_servers)) * many)
            wanted = [Collective.ALLGATHER, *[Collective.ALLTOALL] * exchanges]
            self._to_all[key] = recipe_option(recipe, wanted)
        return (self._to_all[key], *options)

    def named(self, recipe: Recipe, *, exchanges: bool) -> FabricOption | None:
        """The option of a recipe, None where its all-to-all is too large to solve."""
        if exchanges and recipe.num_nodes > MAX_ALLTOALL:
            return None
        for option in self.options(recipe.num_nodes, recipe.degree, exchanges=exchanges):
            if option.recipe == recipe:
                return option
        wanted = [Collective.ALLGATHER, *[Collective.ALLTOALL] * exchanges]
        return recipe_option(recipe, wanted)

    def baselines(self, num_nodes: int, num_ports: int) -> tuple[Recipe, ...]:
        """The ring of all ports, and the torus of least diameter if there is one."""
        return baseline_recipes(Question(num_nodes, num_ports))

    def packed(
        self, option: FabricOption, model: CostModel, largest: Fraction | int
    ) -> FabricOption:
        """The option with forests where messages up to the largest gain by them."""
        held = self._packed.get(option, option)
        if not held.contenders:
            held = with_contenders(held, model, largest)
            self._packed[option] = held
        return held
