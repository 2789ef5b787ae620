"""What ``build --schedule exact`` and ``cost --exact`` do: the best of few steps and chunks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.cli.interruption import interruptions
from ocs_codesign.cli.output import cost_json, cost_text, emit, show_facts, show_table, t_b_text
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.cli.options import SolverChoice, Source
    from ocs_codesign.cost import Cost
    from ocs_codesign.schedulers.exact.answers import ExactAnswer
    from ocs_codesign.topology import Topology

EXACT = "exact"
NEGATIVE, STOPPED, INTERRUPTED = 1, 2, 130
LIMIT_S = 60.0
MORE_STEPS = 2

chunks_option = click.option(
    "--chunks",
    type=click.IntRange(min=1),
    help="Chunks of a shard in an exact schedule (default: the degree).",
)


def solve_exactly(
    source: Source, collective: str, steps: int | None, chunks: int | None, choice: SolverChoice
) -> ExactAnswer:
    """The exact schedule of a source; by default of the fewest steps and as many chunks as ports.

    Not more than a minute is spent on it unless a time limit says otherwise.
    """
    from ocs_codesign.bounds import topology_bound
    from ocs_codesign.schedulers.exact.answers import exact_schedule

    topology = source.topology()
    steps = steps or topology_bound(topology, collective).steps
    with choice.solving(LIMIT_S) as options:
        return exact_schedule(topology, steps, chunks or topology.degree, collective, options)


def answer_json(answer: ExactAnswer) -> dict[str, Any]:
    """What is proven of an exact schedule, beside its cost."""
    return {
        "optimal": answer.is_optimal,
        "t_b_bound": None if answer.bound is None else str(answer.bound),
        "t_b_bound_any_chunks": None if answer.limit is None else str(answer.limit),
        "status": answer.status,
        "solvers": list(answer.solvers),
    }


def refuse(answer: ExactAnswer, json_path: str | None) -> int:
    """Say that there is no schedule at all, and return the exit code for it."""
    value = {"schedule": None, "steps": answer.num_steps, **answer_json(answer)}
    emit(value, json_path, lambda console: console.print(_sentence(answer.status), soft_wrap=True))
    return NEGATIVE


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """The answers of more and more steps, and what stopped them before ``max_steps`` if anything.

    ``code`` is the exit code.
    """

    max_steps: int
    answers: tuple[ExactAnswer, ...]
    stopped: str | None = None
    code: int = 0

    @property
    def stop_sentence(self) -> str:
        """Where it stopped."""
        return f"stopped at {self.answers[-1].num_steps + 1} steps"


def _walked(
    topology: Topology, max_steps: int, num_chunks: int, collective: str, choice: SolverChoice
) -> _Walk:
    """Walk to the end; if something stops it, what was found before stands."""
    from ocs_codesign.schedulers.exact.answers import exact_answers

    answers: list[ExactAnswer] = []
    stopped, code = None, 0
    try:
        with (
            interruptions(),
            progress("Solving for the fewest steps") as shown,
            choice.solving(LIMIT_S) as given,
        ):
            for answer in exact_answers(topology, max_steps, num_chunks, collective, given):
                answers.append(answer)
                last = max_steps - answers[0].num_steps + 1
                phase = f"Solving for {answer.num_steps + 1} steps"
                shown.tell_phase(phase, len(answers), last)
    except (KeyboardInterrupt, click.ClickException, ValueError, MemoryError) as error:
        if not answers:
            raise
        interrupted = isinstance(error, KeyboardInterrupt)
        stopped = "interrupted" if interrupted else str(error) or "not enough memory"
        code = INTERRUPTED if interrupted else STOPPED
    return _Walk(max_steps, tuple(answers), stopped, code)


def cost_exactly(
    source: Source,
    collective: str,
    max_steps: int | None,
    chunks: int | None,
    choice: SolverChoice,
    json_path: str | None,
) -> int:
    """Find, print and write the exact frontier of steps and t_b; the exit code.

    If something stops it, the points so far are printed and written, and said to be not all.
    """
    from ocs_codesign.bounds import topology_bound
    from ocs_codesign.design import measure_topology

    topology = source.topology()
    least = topology_bound(topology, collective)
    most = least.steps + MORE_STEPS if max_steps is None else max_steps
    if most < least.steps:
        return refuse(solve_exactly(source, collective, most, chunks, choice), json_path)
    walk = _walked(topology, most, chunks or topology.degree, collective, choice)
    eager = measure_topology(topology, collective).cost
    answer = {
        "recipe": source.recipe_text,
        "label": None if source.recipe is None else source.recipe.label(),
        "graph": source.graph_name,
        "nodes": topology.num_nodes,
        "degree": topology.degree,
        "collective": collective,
        "num_chunks": chunks or topology.degree,
        "max_steps": most,
        "topology_bound": cost_json(least),
        "bfb": cost_json(eager),
        "complete": walk.stopped is None,
        "stopped": walk.stopped,
        "points": _points_json(walk),
    }
    emit(answer, json_path, lambda console: _show(console, answer, walk, least, eager))
    if walk.code == STOPPED:
        click.echo(f"Error: {walk.stop_sentence}: {walk.stopped}", err=True)
    elif walk.code == INTERRUPTED:
        click.echo("Interrupted: what was found so far stands.", err=True)
    return walk.code


def _points_json(walk: _Walk) -> list[dict[str, Any]]:
    from ocs_codesign.cost import undominated
    from ocs_codesign.schedulers.exact.answers import cost_of

    best = [answer.num_steps for answer in undominated(walk.answers, cost_of)]
    return [
        {
            "steps": answer.num_steps,
            "t_b": str(cost_of(answer).t_b),
            "t_b_float": float(cost_of(answer).t_b),
            "on_frontier": answer.num_steps in best,
            **answer_json(answer),
        }
        for answer in walk.answers
    ]


def _show(console: Console, answer: dict[str, Any], walk: _Walk, least: Cost, eager: Cost) -> None:
    show_facts(
        console,
        [
            ("recipe", answer["recipe"]),
            ("label", answer["label"]),
            ("graph", answer["graph"]),
            ("nodes, degree", f"{answer['nodes']}, {answer['degree']}"),
            ("collective", answer["collective"]),
            ("chunks a shard", answer["num_chunks"]),
            ("bound of this graph", cost_text(least)),
            ("BFB", cost_text(eager)),
        ],
    )
    console.print()
    columns = ("steps", "t_b", "decimal", "least", "with any chunks", "on frontier", "proof")
    show_table(console, columns, map(_row, answer["points"]), numbers=5)
    if walk.stopped is not None:
        console.print(f"Not complete: {walk.stop_sentence}.")
    elif answer["points"][-1]["t_b"] == str(least.t_b):
        console.print(f"No number of steps takes less than t_b {t_b_text(least.t_b)} here.")
    else:
        console.print(f"More than {walk.max_steps} steps were not tried: see --max-steps.")


def _row(point: dict[str, Any]) -> list[str]:
    keys = ("steps", "t_b", "t_b_bound", "t_b_bound_any_chunks")
    steps, t_b, bound, limit = (str(point[key]) for key in keys)
    how = point["status"].partition(":")[0]
    proof = (
        how if point["optimal"] else f"{how}, gap {float(Fraction(t_b) / Fraction(bound)) - 1:.2%}"
    )
    yes = "yes" if point["on_frontier"] else "no"
    return [steps, t_b, f"{point['t_b_float']:.6g}", bound, limit, yes, proof]


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."
