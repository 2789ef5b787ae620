"""Which recipes can be measured in reasonable time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.graphs.recipe import Base
from ocs_codesign.reach import WORD_BITS
from ocs_codesign.schedulers.bfb.loads import MAX_WORK, can_measure

if TYPE_CHECKING:
    from ocs_codesign.graphs.recipe import Recipe

_BUILDING_A_LINK = 2**10
"""Operations on words that it may take."""


def is_measurable(recipe: Recipe, max_work: int = MAX_WORK) -> bool:
    """Whether the exact cost of BFB takes about so many operations on words at most.

    >>> from ocs_codesign.graphs.families.dense import Complete
    >>> is_measurable(Complete(9))
    True
    """
    if isinstance(recipe, Base) and recipe.loads() is not None:
        return True
    if recipe.num_nodes**3 << recipe.degree <= WORD_BITS * max_work:  # without building it
        return True
    can_build = recipe.num_nodes * recipe.degree * _BUILDING_A_LINK <= max_work
    return can_build and can_measure(recipe.topology(), max_work)
