"""Programs and plans of others: read, interpreted, and raised to a schedule that is replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ocs_codesign.formats.programs.registry import read_program
from ocs_codesign.lowering.lowering import lower
from ocs_codesign.lowering.raising import raised
from ocs_codesign.messages import Messages
from ocs_codesign.rank_program import RankProgram
from ocs_codesign.verification.messages import check_messages
from ocs_codesign.verification.rank_programs import check_program
from ocs_codesign.verification.schedules import verify

if TYPE_CHECKING:
    from pathlib import Path

    from ocs_codesign.collective import Collective
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.verification.schedules import Verdict


@final
@dataclass(frozen=True, slots=True, eq=False)
class Imported:
    """What a file of others holds: its ``collective`` of so many ranks, and what a check found.

    ``witness`` is the first thing wrong, in words, None if nothing is; then ``schedule`` is what
    was read, or what the program does as sends over links, with the ``verdict`` of its replay.
    ``num_operations`` is 0 for a plan that is no program.
    """

    format_name: str
    collective: Collective
    num_ranks: int
    num_operations: int
    witness: str | None
    schedule: Schedule | None = None
    verdict: Verdict | None = None


def imported(path: Path, format_name: str) -> Imported:
    """What a file of a format holds, verified.

    Raises OSError if it cannot be read and ValueError if it is not of the format.
    """
    found = read_program(path, format_name)
    witness = None
    if isinstance(found, RankProgram):
        shape = (found.collective, found.num_ranks, found.num_operations)
        witness = check_program(found).witness
    elif isinstance(found, Messages):
        shape = (found.collective, found.num_ranks, 0)
        witness = check_messages(found)
    else:
        shape = (found.collective, found.num_hosts, 0)
    if witness is not None:
        return Imported(format_name, *shape, str(witness))
    program = lower(found) if isinstance(found, Messages) else found
    schedule = raised(program) if isinstance(program, RankProgram) else program
    verdict = verify(schedule)
    wrong = None if verdict.witness is None else str(verdict.witness)
    return Imported(format_name, *shape, wrong, schedule, verdict)
