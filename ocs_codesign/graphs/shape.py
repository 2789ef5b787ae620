"""Number of nodes and degree of a graph, and the checks that sizes must pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from ocs_codesign.topology import MAX_COSTED_STEPS, MAX_LINKS

MAX_NODES = 2**64


@final
@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a regular graph before it is built."""

    num_nodes: int
    degree: int

    def __post_init__(self) -> None:
        if self.num_nodes > MAX_NODES or self.degree > MAX_NODES:
            raise ValueError("a topology has at most 2^64 nodes and as many ports")

    def check_buildable(self) -> None:
        """ValueError if the graph has too many links to hold in memory."""
        if self.num_nodes * self.degree > MAX_LINKS:
            raise ValueError(
                f"{self.num_nodes} nodes of degree {self.degree} have too many links to build: "
                f"at most {MAX_LINKS} are supported"
            )


def checked_steps(number: int) -> int:
    """The number if so many steps can be listed; ValueError if not."""
    if number > MAX_COSTED_STEPS:
        raise ValueError(f"a schedule of {number} steps: at most {MAX_COSTED_STEPS} are supported")
    return number


def size(value: Any, name: str, least: int, most: int = 2**31 - 1) -> int:
    """The value if it is an int from ``least`` to ``most``; ValueError with the rule if not."""
    if type(value) is not int or not least <= value <= most:
        upper = "" if most == 2**31 - 1 else f" and at most {most}"
        raise ValueError(f"{name} is {value!r}: it must be an integer of at least {least}{upper}")
    return value


def sizes(values: Any, name: str, least: int, most: int = 2**31 - 1) -> tuple[int, ...]:
    """The values if they are a non-empty tuple of such ints."""
    if not isinstance(values, tuple) or not values:
        raise ValueError(f"{name} is {values!r}: it must be a non-empty tuple of integers")
    return tuple(size(value, f"an entry of {name}", least, most) for value in values)
