"""Why a topology does not fit a fabric: the bound that fails, for people and for programs."""

from __future__ import annotations

from enum import Enum
from typing import final


@final
class Reason(Enum):
    """The bound that fails; the value says it in a few words.

    All but NOT_FOUND are proofs: no embedding exists under the rules that the sentence names.
    """

    HOSTS = "more nodes than hosts"
    SPEED = "links differ in speed"
    ONE_WAY = "a link has no reverse"
    LOOP = "a switch cannot join a port with itself"
    PLANES = "fewer planes than the links at a node need"
    PORTS = "fewer ports than nodes"
    BLOCK = "a block larger than every switch"
    PACKING = "blocks that together fit into no choice of switches"
    LOSS = "more loss than the budget"
    STATES = "a link that no switch state offers"
    CABLING = "a link that the cables do not allow"
    NOT_FOUND = "the search ended without an embedding and without a proof"


@final
class InfeasibleError(ValueError):
    """A topology does not fit; ``reason`` says which bound fails, the message says it in full."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason

    def __reduce__(self) -> tuple[type[InfeasibleError], tuple[Reason, str]]:
        return InfeasibleError, (self.reason, str(self))
