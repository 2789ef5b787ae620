"""All-to-all of many topologies: the frontier of a search, and of what a catalogue stores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import click

from ocs_codesign.answers.joint import (
    joint_json,
    joint_sections,
    stored_json,
    stored_sections,
)
from ocs_codesign.cli.output import emit, picked
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.cli.options import SolverChoice
    from ocs_codesign.cost import MessageSizes
    from ocs_codesign.question import Question
    from ocs_codesign.search.catalogue.store import Catalogue
    from ocs_codesign.search.pareto import Frontier


@final
@dataclass(frozen=True, slots=True)
class AlltoallQuestion:
    """What was asked of a size, and of which messages."""

    num_nodes: int
    degree: int
    with_allgather: bool
    bidirectional: bool
    fresh: bool
    messages: MessageSizes | None
    show_all: bool


def frontier_of_alltoall(
    asked: AlltoallQuestion,
    choice: SolverChoice,
    pick: int | None,
    plot: str | None,
    json_path: str | None,
) -> None:
    """Search, print, draw and write the joint frontier."""
    from ocs_codesign.search.frontier import joint_frontier

    with progress("Searching") as shown, choice.solving() as options:
        answer = joint_frontier(
            asked.num_nodes,
            asked.degree,
            with_allgather=asked.with_allgather,
            bidirectional=asked.bidirectional,
            fresh=asked.fresh,
            on_progress=shown.tell_phase,
            options=options,
        )
        files = {} if plot is None else {plot: _figure(answer, asked.messages, plot)}
    sections: Iterable[Section] = joint_sections(answer, asked.messages, show_all=asked.show_all)
    if pick is not None:
        sections = picked([design.recipes for design in answer.candidates], pick)
    emit(joint_json(answer, asked.messages), json_path, sections, files)
    _refuse_if_stopped(answer, choice)


def _refuse_if_stopped(answer: Frontier, choice: SolverChoice) -> None:
    """ClickException, with the answer out, if some were not solved as well as was asked."""
    if answer.stopped is not None:
        raise click.ClickException(f"not all was solved: {choice.advised(answer.stopped)}")


def _figure(answer: Frontier, asked: MessageSizes | None, plot: str) -> bytes:
    from pathlib import Path

    from ocs_codesign.plot import figure_bytes
    from ocs_codesign.plot.joint import joint_figure

    if not answer.candidates:
        raise click.ClickException("no candidate was solved in time: there is nothing to draw")
    return figure_bytes(joint_figure(answer, asked), Path(plot).suffix)


@final
@dataclass(frozen=True, slots=True)
class StoredLimits:
    """Limits of a look-up: most steps, which are the diameter, and most all-to-all time in M/B."""

    max_steps: int | None
    max_t_b: Fraction | None


def stored_by_alltoall(
    store: Catalogue,
    asked: Question,
    limits: StoredLimits,
    choice: SolverChoice,
    pick: int | None,
    json_path: str | None,
) -> None:
    """Solve the all-to-all of what is stored for a size, print and write the best of it.

    Exit code 1 if nothing is within the limits.
    """
    from ocs_codesign.graphs.text import parse
    from ocs_codesign.search.catalogue.lookup import nearest
    from ocs_codesign.search.joint import ALLTOALL_ALONE, rank_jointly

    question, entries = nearest(store, asked)
    times = {parse(one.recipe): one.alltoall for one in entries if one.alltoall is not None}
    with progress("Solving") as shown, choice.solving() as options:
        answer = rank_jointly(
            question,
            [entry.design() for entry in entries],
            ALLTOALL_ALONE,
            shown.tell_phase,
            options,
            times,
        )
    kept = tuple(
        one
        for one in answer.candidates
        if (limits.max_steps is None or one.cost.steps <= limits.max_steps)
        and (limits.max_t_b is None or one.cost.t_b <= limits.max_t_b)
    )
    answer = replace(answer, candidates=kept)
    sections: Iterable[Section] = stored_sections(answer, asked, len(entries), len(times))
    if pick is not None:
        sections = picked([design.recipes for design in answer.candidates], pick)
    emit(stored_json(answer, asked), json_path, sections)
    _refuse_if_stopped(answer, choice)
    if not kept:
        raise click.exceptions.Exit(1)
