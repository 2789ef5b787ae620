"""What a message could take: forests in parts and BFB, as an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Table, counted
from ocs_codesign.answers.texts import cost_json, model_text
from ocs_codesign.quantities import format_size, format_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.schedulers.forest.choice import Choice, Contender

_COLUMNS = ("time", "over bound", "steps", "t_b", "trees", "height", "parts", "chunk", "schedule")


def choice_json(choice: Choice) -> dict[str, Any]:
    """The JSON form of what was compared for a message, the best first."""
    contenders = [
        {
            "schedule": one.maker,
            **cost_json(one.cost),
            "t_b_float": float(one.cost.t_b),
            "time_s": float(choice.time_s(one.cost)),
            **_forest_json(choice, one),
        }
        for one in choice.contenders
    ]
    return {
        "message_bytes": choice.message_bytes,
        "alpha_s": float(choice.model.alpha_s),
        "node_bandwidth_Bps": float(choice.model.node_bandwidth_Bps),
        "contenders": contenders,
        "bound": {**cost_json(choice.least), "time_s": float(choice.time_s(choice.least))},
        "over_bound": over_bound(choice, choice.best),
        "full_pipeline_s": choice.pipelined_s,
        "over_full_pipeline": float(choice.time_s(choice.best.cost)) / choice.pipelined_s,
    }


def _forest_json(choice: Choice, one: Contender) -> dict[str, Any]:
    if one.pipeline is None:
        return {}
    return {
        "trees": one.pipeline.trees_a_unit,
        "height": one.height,
        "parts": one.num_parts,
        "chunk_bytes": float(one.pipeline.chunk_bytes(choice.message_bytes, one.num_parts)),
    }


def over_bound(choice: Choice, one: Contender) -> float:
    """How many times what nothing beats a contender takes."""
    return float(choice.time_s(one.cost) / choice.time_s(choice.least))


def choices_sections(collectives: Sequence[str], choices: Sequence[Choice]) -> Iterator[Section]:
    """The contenders for a message, a table a collective, and how good the best is."""
    for collective, choice in zip(collectives, choices, strict=True):
        yield ""
        size = format_size(choice.message_bytes)
        yield f"{model_text(f'{size}, {collective}', choice.model)}:"
        yield Table(_COLUMNS, [_row(choice, one) for one in choice.contenders], 8)
        least = format_time(float(choice.time_s(choice.least)))
        yield (
            f"Nothing takes less than {least}: {counted(choice.least.steps, 'step')} and the bytes "
            f"at t_b {float(choice.least.t_b):.6g}. {_pipeline_text(choice)}"
        )


def _pipeline_text(choice: Choice) -> str:
    """How the best compares to a pipeline of full steps through trees as high."""
    full = choice.pipelined_s
    ratio = float(choice.time_s(choice.best.cost)) / full - 1
    more = f"{abs(ratio):.1%} {'more' if ratio > 0 else 'less'}"
    return (
        f"The first takes {more} than (sqrt(T_B) + sqrt((H - 1) alpha))^2 = {format_time(full)}, "
        f"what full steps through trees of height H = {choice.best.height} take."
    )


def _row(choice: Choice, one: Contender) -> tuple[str, ...]:
    facts = _forest_json(choice, one)
    texts = [str(facts.get(name, "-")) for name in ("trees", "height", "parts")]
    if facts:
        texts.append(format_size(facts["chunk_bytes"]))
    return (
        format_time(float(choice.time_s(one.cost))),
        f"{over_bound(choice, one):.3f}",
        str(one.cost.steps),
        f"{float(one.cost.t_b):.6g}",
        *texts,
        *["-"] * (not facts),
        one.maker,
    )
