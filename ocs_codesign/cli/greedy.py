"""The options of ``build`` that greedy synthesis heeds, and what it answers without a directory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, final

import click

from ocs_codesign.answers.greedy import synthesis_json, synthesis_sections
from ocs_codesign.cli.output import emit
from ocs_codesign.collective import Collective

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.schedulers.task import Made

GREEDY = "greedy"
ROOTED = ("broadcast", "reduce", "scatter", "gather")

# Spelled out, since importing the scheduler for a help text would take too long.
LATENCY_MODELS = ("pipelined", "blocking")

_OPTIONS = (
    click.option(
        "--root",
        type=click.IntRange(min=0),
        help="The root of a broadcast, reduce, scatter or gather (default: 0).",
    ),
    click.option(
        "--seed", type=click.IntRange(min=0), help="Seed of a greedy schedule (default: 0)."
    ),
    click.option(
        "--latency-model",
        type=click.Choice(LATENCY_MODELS),
        help="Whether a greedy schedule's chunk leaves its link free while it is on the way "
        "(pipelined, the default) or holds it until it has arrived.",
    ),
)


@final
@dataclass(frozen=True, slots=True)
class GreedyChoice:
    """What these options say."""

    root: int | None
    seed: int | None
    latency_model: str | None

    def collective(self, name: str) -> Collective:
        """The collective of that name; UsageError for a root that it does not have."""
        if name in ROOTED:
            return Collective(name, root=self.root or 0)
        if self.root is not None:
            raise click.UsageError(f"--root is for {', '.join(ROOTED)}: {name} has none")
        return Collective.parse(name)

    def limits(self) -> dict[str, Any]:
        """What they are of a task."""
        return {"seed": self.seed, "latency_model": self.latency_model}


def greedy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options --root, --seed and --latency-model, as the argument ``greedy``."""

    @wraps(command)
    def chosen(
        *arguments: Any,
        root: int | None,
        seed: int | None,
        latency_model: str | None,
        **others: Any,
    ) -> Any:
        greedy = GreedyChoice(root, seed, latency_model)
        return command(*arguments, greedy=greedy, **others)

    decorated: Callable[..., Any] = chosen
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def tell_times(made: Made, json_path: str | None, seconds: float) -> int:
    """Say what a greedy schedule takes, without saving it, and return the exit code."""
    if made.greedy is None:
        raise click.UsageError("Missing option '--out'.")
    answer = {**synthesis_json(made.greedy), "seconds": seconds}
    emit(answer, json_path, synthesis_sections(made.greedy, seconds))
    return 0
