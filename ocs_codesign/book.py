"""Book: for a collective on a network, which plan to use for messages of which size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

from ocs_codesign.messages import Messages
from ocs_codesign.schedule import Schedule

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.collective import Collective
    from ocs_codesign.network import Network

Plan: TypeAlias = Schedule | Messages
"""Sends over links that are named, or messages between ranks that a network routes."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """A ``plan`` for messages of ``from_bytes`` bytes and more, made by ``maker``."""

    from_bytes: int
    maker: str
    plan: Plan


@final
@dataclass(frozen=True, slots=True, eq=False)
class Book:
    """Plans of a collective for all sizes of a message; a page ends where the next begins.

    A unit of the network's bandwidth is ``unit_Bps`` bytes a second. Raises ValueError unless the
    first page begins at 0, pages ascend, and all plans are of the collective and on the network.
    """

    network: Network
    unit_Bps: Fraction  # noqa: N815 - units keep their case
    collective: Collective
    pages: tuple[Page, ...]

    def __post_init__(self) -> None:
        begins = [page.from_bytes for page in self.pages]
        if not begins or begins[0] != 0 or begins != sorted(set(begins)):
            raise ValueError(f"pages begin at {begins} bytes: from 0 on, each after the last")
        if self.unit_Bps <= 0:
            raise ValueError(f"unit_Bps is {self.unit_Bps}: it must be positive")
        for page in self.pages:
            rule = self._foreign(page.plan)
            if rule is not None:
                raise ValueError(f"the plan from {page.from_bytes} bytes on {rule}")

    def _foreign(self, plan: Plan) -> str | None:
        """What a plan has that this collective or network has not."""
        if plan.collective != self.collective:
            return f"is of {plan.collective.text}, not of {self.collective.text}"
        if isinstance(plan, Messages):
            hosts = plan.num_ranks
        else:
            hosts = plan.num_hosts
            if plan.topology.num_links != self.network.num_links or not (
                (plan.topology.tail == self.network.tail).all()
                and (plan.topology.head == self.network.head).all()
            ):
                return "is over other links than the network's"
        if hosts != self.network.num_hosts:
            return f"is of {hosts} hosts, not of {self.network.num_hosts}"
        return None

    def page_of(self, message_bytes: int) -> Page:
        """The page for a message; ValueError for a negative size.

        >>> from fractions import Fraction
        >>> from ocs_codesign.collective import Collective
        >>> from ocs_codesign.network import Network
        >>> from ocs_codesign.topology import Topology
        >>> pair = Network(2, 2, [0, 1], [1, 0], [1, 1])
        >>> columns = [0, 1], [0, 0], [1, 1], [0, 1], [1, 1]
        >>> swap = Schedule(pair.topology(), Collective.ALLGATHER, 1, *columns)
        >>> Book(pair, Fraction(1), Collective.ALLGATHER, (Page(0, "bfb", swap),)).page_of(7).maker
        'bfb'
        """
        if message_bytes < 0:
            raise ValueError(f"a message of {message_bytes} bytes: it cannot be negative")
        return next(page for page in reversed(self.pages) if page.from_bytes <= message_bytes)
