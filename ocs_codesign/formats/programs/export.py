"""What leaves: a plan with the program of ranks that it was lowered to, and for what message."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from fractions import Fraction

    from ocs_codesign.book import Book, Plan
    from ocs_codesign.network import Network
    from ocs_codesign.rank_program import RankProgram


@final
@dataclass(frozen=True, slots=True, eq=False)
class Export:
    """A verified plan, its program, and what formats ask beside it.

    ``name`` is a plain name for files and algorithms. The plan runs on ``network``, of which a unit
    of bandwidth is ``unit_Bps`` bytes a second, None where it has no unit; M, the buffer of a rank,
    is ``message_bytes``, None if it was not said.
    """

    name: str
    plan: Plan
    program: RankProgram
    network: Network
    unit_Bps: Fraction | None = None  # noqa: N815 - units keep their case
    message_bytes: int | None = None

    def checked_message_bytes(self) -> int:
        """M; ValueError if it was not said."""
        if self.message_bytes is None:
            raise ValueError("this format has sizes in bytes: --message says which")
        return self.message_bytes

    def checked_unit_Bps(self) -> Fraction:  # noqa: N802
        """Bytes a second of a unit of bandwidth; ValueError if it was not said."""
        if self.unit_Bps is None:
            raise ValueError("this format has bandwidths: --bandwidth says which")
        return self.unit_Bps


Contents: TypeAlias = "Mapping[str, bytes]"
"""Files by their names relative to a directory."""


@final
@dataclass(frozen=True, slots=True)
class CheckedFile:
    """What a check of files that carry no data found: facts by name, and what is wrong, if it is.

    ``limit`` says in words what the check cannot see.
    """

    facts: tuple[tuple[str, int | str], ...]
    limit: str
    witness: str | None = None


@final
@dataclass(frozen=True, slots=True)
class ProgramFormat:
    """A way for plans and programs to leave, and to come.

    ``write`` gives the files of one plan, ``write_book`` those of a whole book at once, for formats
    that choose by size; ``read`` gives the program in a file or directory, or the plan where the
    format is one of plans; ``check`` is for formats that carry no data, so that what they hold is
    no plan. What they cannot take is a ValueError with the rule. A file whose name ends with
    ``suffix`` and begins with one of ``marks`` is told to be of this format. ``made_for`` says who
    reads it.
    """

    description: str
    made_for: str
    write: Callable[[Export], Contents] | None = None
    write_book: Callable[[Book, str], Contents] | None = None
    read: Callable[[Path], RankProgram | Plan] | None = None
    check: Callable[[Path], CheckedFile] | None = None
    suffix: str = ""
    marks: tuple[bytes, ...] = ()
