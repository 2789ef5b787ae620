"""Collectives: what every node holds before and after, and nothing else."""

from __future__ import annotations

from enum import Enum


class Collective(Enum):
    """A collective operation over N nodes, each owning one shard of M/N bytes.

    ========== ============================= =======================================
    member     before                        after
    ========== ============================= =======================================
    allgather  node v holds shard v          every node holds every shard
    reduce-    every node holds its own      node v holds the sum of the N
    scatter    contribution to every shard   contributions to shard v
    allreduce  as reduce-scatter             every node holds the sum of every shard
    ========== ============================= =======================================

    >>> Collective.parse("reduce-scatter")
    <Collective.REDUCE_SCATTER: 'reduce-scatter'>
    >>> Collective.ALLGATHER.mirrored
    <Collective.REDUCE_SCATTER: 'reduce-scatter'>
    """

    ALLGATHER = "allgather"
    REDUCE_SCATTER = "reduce-scatter"
    ALLREDUCE = "allreduce"

    @classmethod
    def parse(cls, text: str | Collective) -> Collective:
        """The collective of that name (``_`` and ``-`` are the same); ValueError if none."""
        if isinstance(text, Collective):
            return text
        try:
            return cls(text.strip().lower().replace("_", "-"))
        except ValueError:
            names = ", ".join(member.value for member in cls)
            raise ValueError(f"unknown collective {text!r}: expected one of {names}") from None

    @property
    def mirrored(self) -> Collective:
        """The collective that a schedule becomes when time and links are reversed."""
        return _MIRROR[self]


_MIRROR = {
    Collective.ALLGATHER: Collective.REDUCE_SCATTER,
    Collective.REDUCE_SCATTER: Collective.ALLGATHER,
    Collective.ALLREDUCE: Collective.ALLREDUCE,
}
