"""Random numbers for compiled loops: words of a generator, which then goes on after those used."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


@contextmanager
def words_of(
    rng: np.random.Generator, halves: int, wholes: int
) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int64]]]:
    """The words and ``drawn`` of ``draw_kernels``, enough for so many integers and reals.

    >>> from ocs_codesign.search.draw_kernels import draw, draw_real
    >>> rng, same = (np.random.default_rng(1) for _ in range(2))
    >>> with words_of(rng, 3, 1) as (words, drawn):
    ...     numbers = [draw(words, drawn, 10), draw_real(words, drawn), draw(words, drawn, 10)]
    >>> numbers == [same.integers(10), same.random(), same.integers(10)]
    True
    >>> bool(rng.integers(10) == same.integers(10))
    True
    """
    source: Any = rng.bit_generator
    before = source.state
    # Few numbers are rejected: of N, one in 2^32 / N.
    words = source.random_raw(halves // 2 + wholes + halves // 1000 + 64)
    drawn = np.array([0, before["uinteger"], before["has_uint32"]], dtype=np.int64)
    yield words, drawn
    source.state = before
    source.random_raw(int(drawn[0]), output=False)
    source.state = source.state | {"uinteger": int(drawn[1]), "has_uint32": int(drawn[2])}
