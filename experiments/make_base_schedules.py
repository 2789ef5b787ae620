"""Make base_topologies/schedules/: allgathers of base graphs that BFB does not find, by solving.

    python experiments/make_base_schedules.py                   # solve and write the files
    python experiments/make_base_schedules.py --missing         # solve those that are not stored
    python experiments/make_base_schedules.py --check           # verify and compare them
    python experiments/make_base_schedules.py --check --solve   # solve again and compare

Solving all takes some twenty minutes. A check exits with 1 at a difference; without solving it
makes the files anew from the schedules that they hold. Late schedules are limited in nodes of
branch and bound and in chunks, not in time, so that no load of a machine changes them. Which of
equally good schedules a solver finds depends on its version, which the index names. Where the
graph is isomorphic to its transpose, the schedule of the transpose is that of the graph with
renumbered nodes, so its loads are the same. The text of README.md up to its table is kept as it
is found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import networkx as nx
import numpy as np
from late_cases import LATE_CASES
from make_base_topologies import first_difference

from ocs_codesign import Schedule, Topology, exact_schedule, verify
from ocs_codesign.core.lp import Options
from ocs_codesign.graphs.families.shifts import ModifiedDeBruijn
from ocs_codesign.graphs.recipe import Base
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import measure_topology
from ocs_codesign.schedules.stepped.late import late_schedule
from ocs_codesign.schedules.stored import (
    StoredSchedule,
    of_all_roots,
    read_allgather,
    stored_schedules,
)

DIRECTORY = Path(__file__).resolve().parent.parent / "base_topologies" / "schedules"
INDEX_VERSION = 1
TABLE_HEAD = (
    "| recipe | of its | N | d | steps | t_b | chunks | made by |\n"
    "|---|---|---:|---:|---:|---:|---:|---|\n"
)
MAX_NUMBERS = 8
HALF_AN_HOUR = Options(time_limit_s=1800.0)


@dataclass(frozen=True, slots=True)
class Case:
    """A base graph to be solved, in so many steps and chunks; late ones in so many or fewer.

    Those that are exact are stored of the graph and of its transpose, late ones where they have
    less than BFB.
    """

    recipe: Base
    num_steps: int
    num_chunks: int
    is_late: bool = False


def base(text: str) -> Base:
    """The base graph that a text names; TypeError for an expansion, which has no own schedule."""
    recipe = parse(text)
    if not isinstance(recipe, Base):
        raise TypeError(f"{text} is no base graph")
    return recipe


CASES = (
    Case(ModifiedDeBruijn(2, 3), 4, 2),
    Case(ModifiedDeBruijn(2, 4), 5, 2),
    Case(ModifiedDeBruijn(2, 5), 6, 2),
    Case(ModifiedDeBruijn(3, 2), 3, 3),
    Case(ModifiedDeBruijn(3, 3), 4, 3),
    Case(ModifiedDeBruijn(4, 2), 3, 4),
    Case(ModifiedDeBruijn(5, 2), 3, 5),
    *(Case(base(text), steps, chunks, is_late=True) for text, steps, chunks in LATE_CASES),
)


@dataclass(frozen=True, slots=True)
class Made:
    """A schedule to be stored and where it comes from."""

    recipe: Base
    transposed: bool
    schedule: Schedule
    source: str


def solved(case: Case) -> list[Made]:
    """The allgathers of a case's graph and of its transpose."""
    if case.is_late:
        return solved_late(case)
    topology = case.recipe.topology()
    forward = Made(case.recipe, False, *optimum(topology, case))
    renumbered = onto_transpose(topology)
    if renumbered is None:
        return [forward, Made(case.recipe, True, *optimum(topology.transpose(), case))]
    plain = forward.schedule
    moved = Schedule(
        topology.relabelled(renumbered),
        plain.collective,
        plain.num_chunks,
        renumbered[plain.root],
        *plain.columns()[1:],
    )
    source = f"that of {case.recipe!r} under an isomorphism to its transpose"
    return [forward, Made(case.recipe, True, moved.on_links_of(topology.transpose()), source)]


def solved_late(case: Case) -> list[Made]:
    """The late allgathers of a case's graph and of its transpose, where BFB takes more."""
    topology = case.recipe.topology()
    found = []
    for transposed, graph in ((False, topology), (True, topology.transpose())):
        limits = (case.num_steps, "allgather", Options(), case.num_chunks)
        answer = late_schedule(graph, *limits)
        if answer.cost.t_b < measure_topology(graph).cost.t_b:
            source = f"late_schedule, HiGHS {version('highspy')}"
            found.append(Made(case.recipe, transposed, answer.best, source))
    return found


def optimum(topology: Topology, case: Case) -> tuple[Schedule, str]:
    """The schedule with the least t_b, and its source; ValueError if it is not proven to be."""
    answer = exact_schedule(topology, case.num_steps, case.num_chunks, options=HALF_AN_HOUR)
    if answer.schedule is None or not answer.is_optimal:
        raise ValueError(f"{case}: {answer.status}")
    return answer.schedule, f"exact_schedule, HiGHS {version('highspy')}"


def onto_transpose(topology: Topology) -> np.ndarray | None:
    """Where an isomorphism to the transpose takes every node, None if there is none."""
    graph = nx.DiGraph(list(zip(topology.tail.tolist(), topology.head.tolist(), strict=True)))
    matcher = nx.algorithms.isomorphism.DiGraphMatcher(graph, graph.reverse())
    if not matcher.is_isomorphic():
        return None
    return np.array([matcher.mapping[node] for node in range(topology.num_nodes)])


def file_text(made: Made) -> str:
    """A schedule's file: the header keys on the first line, then a line for each stored root."""
    schedule = made.schedule
    header = {
        "recipe": repr(made.recipe),
        "transposed": made.transposed,
        "steps": schedule.num_steps,
        "chunks": schedule.num_chunks,
    }
    rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in arrivals(schedule).tolist())
    return json.dumps(header)[:-1] + ', "arrivals": [\n' + rows + "\n]}\n"


def arrivals(schedule: Schedule) -> np.ndarray:
    """Of every root, chunk and node: in-link * steps + step - 1, or -1 for the root itself.

    Of the first root of every orbit, where the symmetry of the graph maps it to the others.
    """
    topology, nodes = schedule.topology, schedule.topology.num_nodes
    into = topology.links_by_head()
    port = np.empty(topology.num_links, dtype=np.int64)
    port[into.order] = np.arange(topology.num_links)
    port -= into.start[topology.head]
    found = np.full((nodes, schedule.num_chunks, nodes), -1)
    links, steps = np.zeros_like(found), np.zeros_like(found)
    for root, lo, hi, link, step in np.stack(schedule.columns(), axis=1).tolist():
        here = root, slice(lo, hi), topology.head[link]
        found[here] = port[link] * schedule.num_steps + step - 1
        links[here], steps[here] = link, step
    if topology.symmetry is None:
        return found
    first = topology.symmetry.representatives()
    copied = of_all_roots(topology, links[first], steps[first])
    is_invariant = ((copied[0] == links) & (copied[1] == steps) | (found < 0)).all()
    return found[first] if is_invariant else found


def entry_of(made: Made, text: str) -> StoredSchedule:
    """The entry of the index; ValueError if the schedule does not verify."""
    verdict = verify(made.schedule)
    if not verdict.ok:
        raise ValueError(f"the schedule of {made.recipe!r} fails: {verdict.witness}")
    return StoredSchedule(
        repr(made.recipe),
        made.transposed,
        made.recipe.num_nodes,
        made.recipe.degree,
        verdict.cost.steps,
        verdict.cost.t_b,
        made.schedule.num_chunks,
        made.source,
        file_name(made),
        hashlib.sha256(text.encode()).hexdigest(),
    )


def file_name(made: Made) -> str:
    """Such as modified_de_bruijn_2_3.json, with _transposed for the transpose.

    Where a recipe has many numbers, N, d and a digest of its text stand for them.
    """
    family = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(made.recipe).__name__)
    numbers = "".join(c if c.isdigit() else " " for c in repr(made.recipe)).split()
    if len(numbers) > MAX_NUMBERS:
        digits = hashlib.sha256(repr(made.recipe).encode()).hexdigest()[:8]
        numbers = [str(made.recipe.num_nodes), str(made.recipe.degree), digits]
    parts = [family.strip("_"), *numbers, *(["transposed"] if made.transposed else [])]
    return "_".join(parts) + ".json"


def index_text(entries: Sequence[StoredSchedule]) -> str:
    """The index file, a line for each schedule."""
    lines = ",\n".join(json.dumps({**asdict(entry), "t_b": str(entry.t_b)}) for entry in entries)
    return f'{{"version": {INDEX_VERSION}, "schedules": [\n{lines}\n]}}\n'


def readme_text(old: str, entries: Sequence[StoredSchedule]) -> str:
    """The readme with its table, at its end, made anew."""
    text, head, _ = old.partition(TABLE_HEAD)
    if not head:
        raise ValueError("README.md has no table of schedules")
    rows = [
        f"| {entry.recipe} | {'transpose' if entry.transposed else 'graph'} | {entry.nodes} "
        f"| {entry.degree} | {entry.steps} | {entry.t_b} | {entry.chunks} | {entry.source} |\n"
        for entry in entries
    ]
    return text + head + "".join(rows)


def stored(case: Case) -> list[Made]:
    """What the files hold of a case now, nothing if it is new; ValueError if one is refused."""
    found = []
    topology = case.recipe.topology()
    for transposed in (False, True):
        entry = stored_schedules().get((repr(case.recipe), transposed))
        if entry is not None:
            graph = topology.transpose() if transposed else topology
            schedule = read_allgather(entry, graph)
            found.append(Made(case.recipe, transposed, schedule, entry.source))
    return found


def surely_stored(case: Case) -> list[Made]:
    """The same; ValueError if there are none, or not of both directions unless they are late."""
    found = stored(case)
    if not found or (len(found) < 2 and not case.is_late):
        raise ValueError(f"{case.recipe!r} has no stored schedule")
    return found


def of_case(case: Case, options: argparse.Namespace) -> list[Made]:
    """The schedules of a case, solved or as they are stored."""
    if options.missing:
        return stored(case) or solved(case)
    return solved(case) if options.solve or not options.check else surely_stored(case)


def make_files(schedules: Sequence[Made], readme: str) -> dict[str, str]:
    """The text of every file of the directory by its name, given the readme as it is now."""
    files: dict[str, str] = {}
    entries = []
    for made in schedules:
        text = file_text(made)
        entries.append(entry_of(made, text))
        files[file_name(made)] = text
    return {**files, "index.json": index_text(entries), "README.md": readme_text(readme, entries)}


def differing(files: Mapping[str, str]) -> int:
    """1, naming the first file that differs, or 0."""
    name = first_difference(DIRECTORY, files)
    if name is not None:
        print(f"differs: {DIRECTORY / name}", file=sys.stderr)
    return int(name is not None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the files; the exit code."""
    summary = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--check", action="store_true", help="compare the files, write nothing")
    parser.add_argument("--solve", action="store_true", help="with --check: solve again")
    parser.add_argument("--missing", action="store_true", help="solve only what is not stored")
    options = parser.parse_args(arguments)
    schedules = [made for case in CASES for made in of_case(case, options)]
    files = make_files(schedules, (DIRECTORY / "README.md").read_text(encoding="utf-8"))
    if options.check:
        return differing(files)
    for name, text in files.items():
        (DIRECTORY / name).write_bytes(text.encode())
    print(f"{len(schedules)} schedules written to {DIRECTORY}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
