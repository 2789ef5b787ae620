"""Look at every topology of the small sizes, and store what none of them beats.

    python experiments/make_exhausted.py            # those that are missing, some minutes each
    python experiments/make_exhausted.py --check    # the quick ones again: the same lines

Writes ``ocs_codesign/search/exhaustion/exhausted.json``. Nothing in it depends on a seed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from ocs_codesign.core.files.atomic import write_files
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.exhaustion.visits import (
    STORED,
    Exhaustion,
    exhaust,
    records_text,
    stored_exhaustions,
)

Case = tuple[Question, bool, bool]
"""A question, whether loops and parallel links are left out, whether all-to-all is solved."""

QUICK_CLASSES = 3_000


def cases() -> Iterator[Case]:
    """What is looked at, the sizes that take longest last."""
    for nodes in range(3, 11):
        yield Question(nodes, 2), False, nodes <= 7
    for nodes in range(4, 13, 2):
        yield Question(nodes, 3, True), False, True
    for nodes in range(4, 8):
        yield Question(nodes, 3), False, nodes <= 5
    for nodes in range(5, 11):
        yield Question(nodes, 4, True), False, nodes <= 9
    for nodes in (14, 16, 18):
        yield Question(nodes, 3, True), True, nodes <= 14
    for nodes in (11, 12, 13):
        yield Question(nodes, 4, True), True, nodes <= 11
    yield Question(8, 3), True, False
    yield Question(11, 2), True, False
    yield Question(8, 2), True, True
    yield Question(9, 2), True, True


def made(case: Case) -> Exhaustion:
    """One exhaustion, and on standard error how long it took."""
    question, simple, alltoall = case
    began = time.process_time()
    found = exhaust(question, simple=simple, alltoall=alltoall)
    taken = time.process_time() - began
    sys.stderr.write(f"{question}: {found.num_classes} classes in {taken:.1f} s\n")
    return found


def key(one: Exhaustion) -> tuple[Question, bool]:
    """What tells exhaustions apart."""
    return one.question, one.simple


def main() -> None:
    """Add what is missing, or make the quick ones again and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="make the quick ones again, compare")
    asked = parser.parse_args()
    known = {key(one): one for one in (stored_exhaustions() if STORED.exists() else ())}
    for case in cases():
        stored = known.get(case[:2])
        if asked.check and (stored is None or stored.num_classes > QUICK_CLASSES):
            continue
        if stored is not None and not asked.check:
            continue
        found = made(case)
        if stored is not None and records_text([found]) != records_text([stored]):
            sys.exit(f"{case[0]} comes out otherwise than is stored")
        known[key(found)] = found
        if not asked.check:
            write_files({STORED: records_text(known.values()).encode()})


if __name__ == "__main__":
    main()
