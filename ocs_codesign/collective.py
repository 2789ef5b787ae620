"""Collectives: what every node holds before and after, and nothing else."""

from __future__ import annotations

from enum import Enum


class Collective(Enum):
    """A collective operation over N nodes on M bytes; a shard of M/N belongs to every node.

    ========== ============================= =======================================
    member     before                        after
    ========== ============================= =======================================
    allgather  node v holds shard v          every node holds every shard
    reduce-    every node holds its own      node v holds the sum of the N
    scatter    contribution to every shard   contributions to shard v
    allreduce  as reduce-scatter             every node holds the sum of every shard
    alltoall   node v holds N pieces of M/N, node u holds piece u of every node
               piece u for node u
    ========== ============================= =======================================

    In an all-to-all the shard of a node is thus all of M, and what loads are counted in, M/N, is a
    piece of it; in the other collectives it is a shard.

    >>> Collective.parse("reduce-scatter")
    <Collective.REDUCE_SCATTER: 'reduce-scatter'>
    >>> Collective.parse("all_to_all")
    <Collective.ALLTOALL: 'alltoall'>
    >>> Collective.ALLGATHER.mirrored
    <Collective.REDUCE_SCATTER: 'reduce-scatter'>
    """

    ALLGATHER = "allgather"
    REDUCE_SCATTER = "reduce-scatter"
    ALLREDUCE = "allreduce"
    ALLTOALL = "alltoall"

    @classmethod
    def parse(cls, text: str | Collective) -> Collective:
        """The collective of that name (``_`` and ``-`` are the same); ValueError if none."""
        if isinstance(text, Collective):
            return text
        name = text.strip().lower().replace("_", "-")
        try:
            return cls("alltoall" if name == "all-to-all" else name)
        except ValueError:
            names = ", ".join(member.value for member in cls)
            raise ValueError(f"unknown collective {text!r}: expected one of {names}") from None

    @classmethod
    def parse_gathering(cls, text: str | Collective) -> Collective:
        """The one of GATHERING that has this name; ValueError if none, or if it is all-to-all."""
        collective = cls.parse(text)
        if collective not in GATHERING:
            raise ValueError(
                "BFB makes allgather, reduce-scatter and allreduce schedules, not all-to-all"
            )
        return collective

    @property
    def mirrored(self) -> Collective:
        """The collective that a schedule becomes when time and links are reversed."""
        return _MIRROR.get(self, self)


GATHERING = (Collective.ALLGATHER, Collective.REDUCE_SCATTER, Collective.ALLREDUCE)
"""The collectives made of allgathers and their mirror: what BFB, recipes and catalogues answer."""

_MIRROR = {
    Collective.ALLGATHER: Collective.REDUCE_SCATTER,
    Collective.REDUCE_SCATTER: Collective.ALLGATHER,
}
