"""Question: the size, the degree and the kind of links that a topology is wanted for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from ocs_codesign.graphs.recipe import Recipe


@final
@dataclass(frozen=True, slots=True, order=True)
class Question:
    """N nodes of degree d; ``bidirectional`` asks that every link has one in the other direction.

    Questions are ordered such that all that an expansion starts from come first.
    """

    num_nodes: int
    degree: int
    bidirectional: bool = False

    def is_answered_by(self, recipe: Recipe) -> bool:
        """Whether the recipe's topology has this size, degree and kind of links."""
        return (recipe.num_nodes, recipe.degree) == (self.num_nodes, self.degree) and (
            recipe.bidirectional or not self.bidirectional
        )
