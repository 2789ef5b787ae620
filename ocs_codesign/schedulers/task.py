"""Task and Made: what schedulers are asked for, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from fractions import Fraction

    from ocs_codesign.collective import Collective
    from ocs_codesign.cost import MessageSizes
    from ocs_codesign.forest import Forest
    from ocs_codesign.lp import Options
    from ocs_codesign.network import Network
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.schedulers.exact.answers import ExactAnswer
    from ocs_codesign.schedulers.forest.choice import Choice
    from ocs_codesign.schedulers.greedy.synthesis import Synthesis
    from ocs_codesign.topology import Topology


@final
@dataclass(frozen=True, slots=True)
class Task:
    """What a schedule is wanted for: a collective on a topology, perhaps built from a recipe.

    ``steps``, ``chunks``, ``max_chunks``, ``trees`` (of a unit of a root), ``height`` (hops of a
    tree) and ``parts`` (of what it carries) are limits, None for the maker's own; ``message`` is
    the size that it should be fast for, in chunks of ``min_chunk`` bytes or more; ``options`` are
    those of a solver; ``on_progress(done, total)`` is told how far it is. ``network`` is what the
    links of the topology are, None for links between hosts. ``algorithm_options`` are those of a
    classic algorithm and of its rank map; ``seed``, ``latency_model`` and ``message_bytes``, M,
    are what greedy synthesis begins with and counts time by.
    """

    topology: Topology
    collective: Collective
    recipe: Any = None
    steps: int | None = None
    chunks: int | None = None
    max_chunks: int | None = None
    options: Options | None = None
    on_progress: Callable[[int, int], None] | None = None
    trees: int | None = None
    height: int | None = None
    parts: int | None = None
    message: MessageSizes | None = None
    min_chunk: float | None = None
    network: Network | None = None
    algorithm_options: Mapping[str, Any] | None = None
    seed: int | None = None
    latency_model: str | None = None
    message_bytes: Fraction | None = None


@final
@dataclass(frozen=True, slots=True)
class Made:
    """A schedule, None if there is none, by which maker, and what is known of better ones.

    No schedule under the limits of the task has a lower t_b than ``bound``, if it is known;
    ``exact`` is the answer of the integer program, where one was solved; ``choices`` are what was
    compared for a message, one of a collective or one of each half. Of ``forests`` t_b is in very
    many parts 1 + ``loss`` times the bound's. ``greedy`` are the times of a greedy schedule.
    """

    schedule: Schedule | None
    maker: str
    bound: Fraction | None = None
    exact: ExactAnswer | None = None
    choices: tuple[Choice, ...] = ()
    forests: tuple[Forest, ...] = ()
    loss: Fraction | None = None
    greedy: Synthesis | None = None

    @property
    def height(self) -> int | None:
        """That of the tallest tree of the forests, None if there are none."""
        return max((forest.height for forest in self.forests), default=None)
