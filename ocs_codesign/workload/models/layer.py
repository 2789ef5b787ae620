"""Layers of a model on one rank: operations, memory, parameters and what is sent around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

TENSOR, EXPERT, DATA, EXPERT_DATA = "tensor", "expert", "data", "expert-data"
"""Groups of ranks of a stage: those that share a tensor, the experts, and those with copies."""


@final
@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective of M = ``size_bytes`` over a group."""

    collective: str
    group: str
    size_bytes: int


@final
@dataclass(frozen=True, slots=True)
class Block:
    """What a rank does with a microbatch between two exchanges: forward once, backward twice.

    ``operations`` and ``moved_bytes`` are of the forward pass, ``num_parameters`` what the rank
    holds, with copies in the group ``copies`` (DATA or EXPERT_DATA). Exchanges come before and
    after it forward; backward those of ``backward_before`` and ``backward_after``.
    """

    name: str
    num_parameters: int
    operations: float
    moved_bytes: float
    before: tuple[Exchange, ...] = ()
    after: tuple[Exchange, ...] = ()
    backward_before: tuple[Exchange, ...] = ()
    backward_after: tuple[Exchange, ...] = ()
    copies: str = DATA


Layer = tuple[Block, ...]


@final
@dataclass(frozen=True, slots=True)
class ModelOnRanks:
    """The layers that a rank sees, in order, and what a stage hands to the next.

    ``whole_parameters`` counts the model's parameters once.
    """

    name: str
    layers: tuple[Layer, ...]
    handed_bytes: int
    element_bytes: int
    whole_parameters: int
