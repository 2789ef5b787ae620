"""Finite groups for Cayley graphs: small frozen values that multiply whole index arrays.

The elements of a group are numbered from 0, the identity first. An element is written as an int, a
tuple of elements (products, pairs) or a tuple of images (permutations); ``index`` turns it into its
number and ``right_multiply`` maps the numbers of g to those of g * s, for one s or many.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from ocs_codesign.graphs.recipe import Call

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

MAX_ORDER = 2**24


class Group(Call):
    """What a Cayley graph needs to know of a group: a frozen class a kind.

    Its ``samples`` are groups with elements that generate them, as a ``Cayley`` recipe takes them.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def order(self) -> int:
        """Number of elements."""

    @property
    @abstractmethod
    def is_abelian(self) -> bool:
        """Whether all elements commute."""

    @abstractmethod
    def index(self, element: Any) -> int:
        """Number of an element; ValueError if it is not one."""

    @abstractmethod
    def element(self, number: int) -> Any:
        """The element of a number, as ``index`` reads it."""

    @abstractmethod
    def right_multiply(self, left: Numbers, right: int | Numbers) -> Numbers:
        """Numbers of g * s for the numbers ``left`` of g and ``right`` of s; arrays broadcast."""

    def __str__(self) -> str:
        return self.label()


def check_order(value: int, least: int, name: str) -> None:
    """ValueError unless the value is an int from ``least`` to MAX_ORDER."""
    if type(value) is not int or not least <= value <= MAX_ORDER:
        raise ValueError(f"{name} is {value!r}: an integer from {least} to {MAX_ORDER}")


def residue(value: Any, modulus: int, group: Group) -> int:
    """The value modulo ``modulus``; ValueError unless it is an int."""
    if type(value) is not int:
        raise ValueError(f"{value!r} is not an element of {group!r}")
    return value % modulus


def pair(element: Any, group: Group) -> tuple[Any, Any]:
    """The element if it is a pair; ValueError if not."""
    if not isinstance(element, tuple) or len(element) != 2:
        raise ValueError(f"{element!r} is not an element of {group!r}: a pair of integers")
    return element


def checked_group(value: Any) -> Group:
    """The value if it is a group; ValueError if not."""
    if not isinstance(value, Group):
        raise ValueError(f"{value!r} is not a group")
    return value
