"""A job on a clock as an answer: its period, what is exposed, and what ranks and messages do."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.answers.sections import Facts, Table
from ocs_codesign.quantities import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.workload.job_graph import JobGraph
    from ocs_codesign.workload.period import Steady


@final
@dataclass(frozen=True, slots=True)
class JobIteration:
    """A job, its steady period, and the bound of it.

    ``in_network`` are the parts of allreduces that switches add up, and of all, where some could.
    """

    name: str
    text: str
    graph: JobGraph
    steady: Steady
    bound_s: Fraction
    in_network: tuple[int, int] | None = None

    def busy_s(self) -> list[tuple[Fraction, Fraction, Fraction]]:
        """Of every owner the seconds of an iteration that it computes, communicates, waits."""
        done = self.steady.job_run
        times = self.steady.num_iterations
        columns = done.compute_ticks(), done.channel_ticks(), done.exposed_ticks()
        return [
            tuple(Fraction(int(ticks), times) * self.graph.tick_s for ticks in row)  # type: ignore[misc]
            for row in np.stack(columns, axis=1).tolist()
        ]

    def message_s(self) -> dict[str, Fraction]:
        """Seconds of an iteration that messages of every label run."""
        done = self.steady.job_run
        times = self.steady.num_iterations
        sums = done.group_ticks().items()
        return {label: Fraction(ticks, times) * self.graph.tick_s for label, ticks in sums}


def iteration_json(answer: JobIteration) -> dict[str, Any]:
    """The JSON form: every owner and every kind of message."""
    return {
        "job": answer.name,
        "num_nodes": answer.graph.num_nodes,
        "num_ranks": int(answer.graph.ranks.sum()),
        "period_s": answer.steady.period_s,
        "period_exact_s": str(answer.steady.period_s),
        "is_steady": answer.steady.is_steady,
        "bound_s": answer.bound_s,
        "exposed_s": answer.steady.exposed_s,
        "in_network": None if answer.in_network is None else list(answer.in_network),
        "owners": [
            {
                "owner": owner,
                "ranks": int(answer.graph.ranks[owner]),
                "compute_s": computes,
                "channel_s": sends,
                "exposed_s": exposed,
            }
            for owner, (computes, sends, exposed) in enumerate(answer.busy_s())
        ],
        "messages_s": answer.message_s(),
    }


def _in_network_text(answer: JobIteration) -> str | None:
    if answer.in_network is None:
        return None
    added, every = answer.in_network
    return f"{added} of {every} messages of allreduces, which then take less"


def iteration_sections(answer: JobIteration) -> Iterator[Section]:
    """The same to read; of many owners the middle is left out."""
    steady = answer.steady
    about = "" if steady.is_steady else "about "
    share = float(100 * steady.exposed_s / steady.period_s) if steady.period_s else 0.0
    yield Facts(
        ("job", f"{answer.name}, {answer.text}"),
        ("ranks", int(answer.graph.ranks.sum())),
        ("iteration", f"{about}{format_time(steady.period_s)}"),
        ("bound", f"{format_time(answer.bound_s)}: no order of messages is below"),
        ("exposed", f"{format_time(steady.exposed_s)}, {share:.1f} %: it waits for messages"),
        ("added up by switches", _in_network_text(answer)),
    )
    yield ""
    rows = [
        (
            str(owner),
            str(answer.graph.ranks[owner]),
            *(format_time(seconds) for seconds in busy),
        )
        for owner, busy in enumerate(answer.busy_s())
    ]
    columns = ("class", "ranks", "computes", "communicates", "of it exposed")
    yield Table(columns, rows, numbers=5).shortened("classes")
    messages = [
        (format_time(seconds), label or "-") for label, seconds in answer.message_s().items()
    ]
    if messages:
        yield ""
        yield Table(("runs for", "messages"), messages, numbers=1, texts=1)
