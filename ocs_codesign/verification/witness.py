"""Witness: where something generated first breaks a rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class Witness:
    """Where a schedule first breaks a rule: the send (row, step, link) or the node left without.

    ``row``, ``step`` and ``link`` are None when something is missing rather than wrong; ``node`` is
    then the node that lacks the chunk or never contributes to it. ``root`` and ``chunk`` are None
    for a claimed cost that the sends do not have. ``plane`` is known where circuits change; a
    circuit that breaks a rule of ports has no row, and ``node`` is then the port's. Of programs of
    ranks the ``rank`` is told, and the ``operation`` by its place among those of all.
    """

    rule: str
    root: int | None = None
    chunk: int | None = None
    node: int | None = None
    row: int | None = None
    step: int | None = None
    link: int | None = None
    plane: int | None = None
    rank: int | None = None
    operation: int | None = None

    def __str__(self) -> str:
        names = ("row", "step", "link", "root", "chunk", "node", "plane", "rank", "operation")
        known = [
            f"{name} {getattr(self, name)}" for name in names if getattr(self, name) is not None
        ]
        return ", ".join(known) + (": " if known else "") + self.rule
