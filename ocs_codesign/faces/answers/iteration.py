"""A job on a clock as an answer: its period, what is exposed, and what ranks and messages do."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.quantities import format_time
from ocs_codesign.faces.answers.declared import excluded, made, records, table
from ocs_codesign.faces.answers.sections import Facts, Table, counted
from ocs_codesign.jobs.policies import POLICIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.jobs.fused import FusedOperator
    from ocs_codesign.jobs.issue import Steady
    from ocs_codesign.jobs.job_graph import JobGraph
    from ocs_codesign.jobs.on_links import LinkRun
    from ocs_codesign.jobs.policies import PolicyOutcome


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


def _owners(answer: JobIteration | LinkIteration) -> list[dict[str, Any]]:
    return [
        dict(zip(("owner", "compute_s", "channel_s", "exposed_s"), (owner, *busy), strict=True))
        for owner, busy in enumerate(answer.busy_s())
    ]


_BUSY = "computes=compute_s:time; communicates=channel_s:time; of it exposed=exposed_s:time"

made(
    "iteration.iteration",
    owners=lambda answer: [
        {"ranks": int(ranks), **owner}
        for ranks, owner in zip(answer.graph.ranks.tolist(), _owners(answer), strict=True)
    ],
)


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
    yield table(
        _owners(answer),
        f"class=owner; ranks; {_BUSY}",
        ranks=lambda owner: answer.graph.ranks[owner["owner"]],
    ).shortened("classes")
    messages = [
        (format_time(seconds), label or "-") for label, seconds in answer.message_s().items()
    ]
    if messages:
        yield ""
        yield Table(("runs for", "messages"), messages, numbers=1, texts=1)


# A job on links as an answer: its period beside the formula's, and why they differ.


_SHOWN_SCHEDULES = 4


@final
@dataclass(frozen=True, slots=True)
class MessageTimes:
    """MessageTimes of one label in an iteration: how many, and seconds of all of them together.

    ``formula_s`` by the formula, ``alone_s`` over the links with nothing else on them, ``links_s``
    as they ran, and ``waited_s`` of hops behind those of other messages.
    """

    label: str
    number: int
    formula_s: Fraction
    alone_s: Fraction
    links_s: Fraction
    waited_s: Fraction

    @property
    def factor(self) -> float:
        """How many times as long as alone they took."""
        return float(self.links_s / self.alone_s) if self.alone_s else 1.0


@final
@dataclass(frozen=True, slots=True)
class UsedLink:
    """A link, the share of time that it sends, the wait at it an iteration, and who sends."""

    link: int
    name: str
    busy: float
    waited_s: Fraction
    groups: dict[str, int]

    @property
    def num_groups(self) -> int:
        """Groups of ranks whose messages cross it."""
        return sum(self.groups.values())


@final
@dataclass(frozen=True, slots=True)
class LinkIteration:
    """A job on links: its steady period there, by the ``formula``, and the bound of the links.

    ``alone_ticks`` (int64, shapes) are what messages take with nothing else on the links.
    """

    name: str
    text: str
    graph: JobGraph
    formula: Steady
    steady: Steady
    link_run: LinkRun
    alone_ticks: NDArray[np.int64]
    bound_s: Fraction

    @property
    def times(self) -> int:
        """Iterations that were simulated."""
        return self.link_run.job_run.graph.num_nodes // self.graph.num_nodes

    def busy_s(self) -> list[tuple[Fraction, ...]]:
        """Of every rank the seconds of an iteration that it computes, communicates, waits."""
        done = self.steady.job_run
        columns = done.compute_ticks(), done.channel_ticks(), done.exposed_ticks()
        tick_s = done.graph.tick_s
        return [
            tuple(Fraction(ticks, self.times) * tick_s for ticks in row)
            for row in np.stack(columns, axis=1).tolist()
        ]

    def schedules(self) -> dict[str, int]:
        """What messages of an iteration were sent by, and how many of each."""
        placed = self.link_run.placed
        counts = Counter(placed.shape_of[placed.shape_of >= 0].tolist())
        found: dict[str, int] = {}
        for shape, number in sorted(counts.items()):
            name = placed.names[shape]
            found[name] = found.get(name, 0) + number
        return found

    def messages(self) -> list[MessageTimes]:
        """Those of every label, in the order of the labels."""
        done, run = self.link_run.job_run, self.link_run
        graph, tick_s = done.graph, done.graph.tick_s
        label = np.zeros(graph.num_instances, dtype=np.int64)
        talks = graph.is_communication
        label[graph.instance[talks]] = graph.label[talks]
        formula = self._formula_ticks()
        shape = run.shape_of
        ran = run.instance_ticks()
        alone = np.where(shape >= 0, np.append(self.alone_ticks, 0)[shape], ran)
        found = []
        for one in np.unique(label).tolist():
            mine = label == one
            first = mine[: len(formula)]
            sums = [
                Fraction(int(ticks[mine].sum()), self.times) * tick_s
                for ticks in (alone, ran, run.waited_of)
            ]
            formula_s = int(formula[first].sum()) * self.graph.tick_s
            name = graph.labels[one] or "-"
            found.append(MessageTimes(name, int(first.sum()), formula_s, *sums))
        return found

    def _formula_ticks(self) -> NDArray[np.int64]:
        """Ticks of the job's that the formula has for every instance of an iteration."""
        graph = self.graph
        ticks = np.zeros(graph.num_instances, dtype=np.int64)
        talks = graph.is_communication
        np.maximum.at(ticks, graph.instance[talks], graph.ticks[talks])
        return ticks

    def busiest_links(self) -> list[UsedLink]:
        """The busiest links, the busiest first."""
        run, done = self.link_run, self.link_run.job_run
        network = run.placed.network
        busy = run.link_busy()
        return [
            UsedLink(
                link,
                " to ".join(network.name(int(end[link])) for end in (network.tail, network.head)),
                int(busy[link]) / max(1, done.total_ticks),
                Fraction(int(run.waited[link]), self.times) * network.tick_s,
                self._groups_on(link),
            )
            for link in run.lanes.tolist()
        ]

    def _groups_on(self, link: int) -> dict[str, int]:
        """How many groups of ranks send over a link, by the label of their messages."""
        placed, graph = self.link_run.placed, self.graph
        shapes = placed.shapes_on(link)
        instances = np.flatnonzero(np.isin(placed.shape_of, shapes))
        label = np.zeros(graph.num_instances, dtype=np.int64)
        talks = graph.is_communication
        label[graph.instance[talks]] = graph.label[talks]
        pairs = np.stack([label[instances], placed.group_of[placed.shape_of[instances]]], axis=1)
        counts = Counter(np.unique(pairs, axis=0)[:, 0].tolist())
        return {graph.labels[one] or "-": count for one, count in counts.items()}


def _sent_by(schedules: dict[str, int]) -> list[tuple[str, str]]:
    """A fact of the schedules that messages took, those of the most messages first."""
    order = sorted(schedules, key=lambda name: -schedules[name])
    told = [f"{name} ({schedules[name]})" for name in order[:_SHOWN_SCHEDULES]]
    told += ["..."] if len(order) > _SHOWN_SCHEDULES else []
    return [("schedules", "; ".join(told))] if told else []


made(
    "iteration.link_iteration",
    owners=_owners,
    num_links_used=lambda answer: (answer.link_run.link_busy() > 0).sum(),
    num_links_waited_at=lambda answer: (answer.link_run.waited > 0).sum(),
)


def link_iteration_sections(answer: LinkIteration) -> Iterator[Section]:
    """The same to read."""
    steady, formula = answer.steady, answer.formula
    about = "" if steady.is_steady else "about "
    share = float(100 * steady.exposed_s / steady.period_s) if steady.period_s else 0.0
    ratio = float(steady.period_s / formula.period_s - 1) * 100 if formula.period_s else 0.0
    run = answer.link_run
    waited, used = int((run.waited > 0).sum()), int((run.link_busy() > 0).sum())
    yield Facts(
        ("job", f"{answer.name}, {answer.text}"),
        ("ranks", int(answer.graph.ranks.sum())),
        ("network", f"{run.placed.network!r}, {counted(run.placed.num_transfers, 'transfer')}"),
        ("iteration", f"{about}{format_time(steady.period_s)} over the links"),
        ("formula", f"{format_time(formula.period_s)}: over the links {ratio:+.2f} %"),
        ("bound", f"{format_time(answer.bound_s)}: no order of messages on these links is below"),
        ("exposed", f"{format_time(steady.exposed_s)}, {share:.1f} %: it waits for messages"),
        *_sent_by(answer.schedules()),
        ("links", f"{used} used, at {waited} messages wait behind others"),
    )
    yield ""
    yield table(
        answer.messages(),
        "number; formula=formula_s:time; alone=alone_s:time; over links=links_s:time; "
        "hops waited=waited_s:time; factor:.2f || messages=label",
    )
    yield ""
    links = answer.busiest_links()
    if links:
        yield table(
            links,
            "busy:percent; waited=waited_s:time; groups=num_groups || link=name; groups by message",
            groups_by_message=lambda link: ", ".join(
                f"{label} ({number})" for label, number in link.groups.items()
            ),
        )
        yield ""
    yield table(_owners(answer), f"rank=owner; {_BUSY}").shortened("ranks")


# Policies of communication as an answer: the period under each, and what no policy is below.


@final
@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """A job under several policies."""

    name: str
    text: str
    graph: JobGraph
    bound_s: Fraction
    outcomes: tuple[PolicyOutcome, ...]
    asked: tuple[str, ...] = ()

    @property
    def stuck(self) -> list[str]:
        """Policies under which ranks would wait for each other for ever."""
        found = {outcome.name for outcome in self.outcomes}
        return [name for name in self.asked if name not in found]

    @property
    def best(self) -> PolicyOutcome:
        """The first of those with the least period."""
        return min(self.outcomes, key=lambda outcome: outcome.steady.period_s)


made(
    "iteration.policies",
    excluded=lambda answer: [
        excluded(name, "stuck", "ranks would wait for each other for ever") for name in answer.stuck
    ],
)
made("policy_outcome", source=lambda outcome: POLICIES[outcome.name].source)


def _over_bound(outcome: PolicyOutcome, answer: PolicyComparison) -> str:
    over = outcome.steady.period_s / answer.bound_s - 1 if answer.bound_s else Fraction(0)
    return f"+{float(100 * over):.1f} %"


def policies_sections(answer: PolicyComparison) -> Iterator[Section]:
    """A table, the shortest period first."""
    best = answer.best
    yield Facts(
        ("job", f"{answer.name}, {answer.text}"),
        ("ranks", int(answer.graph.ranks.sum())),
        ("bound", f"{format_time(answer.bound_s)}: none of them is below"),
    )
    yield ""
    yield table(
        sorted(answer.outcomes, key=lambda each: each.steady.period_s),
        "period; over bound; exposed=steady.exposed_s:time | policy=name || setting; what it does",
        period=lambda outcome: (
            "about " * (not outcome.steady.is_steady) + format_time(outcome.steady.period_s)
        ),
        over_bound=lambda outcome: _over_bound(outcome, answer),
        what_it_does=lambda outcome: POLICIES[outcome.name].text,
    )
    if answer.stuck:
        yield f"\nRanks would wait for each other for ever under {', '.join(answer.stuck)}."
    slowest = max(answer.outcomes, key=lambda one: one.steady.period_s)
    if slowest.steady.period_s > best.steady.period_s:
        saved = 1 - best.steady.period_s / slowest.steady.period_s
        yield f"\n{best.name} takes {float(100 * saved):.1f} % less time than {slowest.name}."


# Fused operators as an answer: what fusing saves, by size.


@final
@dataclass(frozen=True, slots=True)
class FusingAnswer:
    """An operator at several sizes."""

    text: str
    num_ranks: int
    operators: tuple[tuple[int, FusedOperator], ...]


made("fused_size", size=lambda pair: pair[0], fused_operator=lambda pair: pair[1])
made("fused_operator", fused_local_first_s=lambda operator: local_first_s(operator))


def local_first_s(operator: FusedOperator) -> Any:
    """Seconds of the fused kernel whose remote workgroups go last."""
    local = operator.num_workgroups - operator.num_remote
    return operator.fused_s([False] * local + [True] * operator.num_remote)


def fusing_sections(answer: FusingAnswer) -> Iterator[Section]:
    """A row a size, and from which on fusing pays."""
    yield Facts(("operator", answer.text), ("ranks", answer.num_ranks))
    yield ""
    yield table(
        records()["iteration.fusing"].json(answer)["sizes"],
        "size; workgroups=num_workgroups; waves=num_waves; computes=compute_s:time; "
        "not fused=unfused_s:time; fused, local first=fused_local_first_s:time; "
        "fused, remote first=fused_s:time; saved:percent",
    )
    paying = [size for size, each in answer.operators if each.saved > 0]
    if len(paying) == len(answer.operators):
        yield "\nFusing pays at all of these sizes."
    elif paying:
        yield f"\nFusing pays at sizes {', '.join(map(str, paying))}."
    else:
        yield "\nFusing pays at none of these sizes."
