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


def like_parts(
    layers: tuple[Layer, ...], num_parts: int
) -> tuple[tuple[tuple[Block, ...], ...], tuple[int, ...]]:
    """The different parts of a stack, as blocks in order, and which of them each part is.

    Layers are alike where they are one object, as those that a model repeats are.

    >>> layer, last = (Block("a", 1, 1.0, 1.0),), (Block("b", 1, 1.0, 1.0),)
    >>> parts, which = like_parts((layer, layer, layer, layer, layer, last), 3)
    >>> [[block.name for block in part] for part in parts], which
    ([['a', 'a'], ['a', 'b']], (0, 0, 1))
    """
    each = len(layers) // num_parts
    known: dict[tuple[int, ...], int] = {}
    parts: list[tuple[Block, ...]] = []
    which: list[int] = []
    for first in range(0, each * num_parts, each):
        part = layers[first : first + each]
        key = tuple(map(id, part))
        if key not in known:
            known[key] = len(parts)
            parts.append(tuple(block for layer in part for block in layer))
        which.append(known[key])
    return tuple(parts), tuple(which)


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
