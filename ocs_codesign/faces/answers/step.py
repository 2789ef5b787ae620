"""A training step on a cluster as an answer: seconds and their parts, use of peaks, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.core.quantities import format_time
from ocs_codesign.faces.answers.declared import made, records
from ocs_codesign.faces.answers.sections import Facts, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.jobs.training.division import Division
    from ocs_codesign.jobs.training.fitting import StepCalibration
    from ocs_codesign.jobs.training.operation import Goodput
    from ocs_codesign.jobs.training.places import HeldPlaces
    from ocs_codesign.jobs.training.search import StepRanking
    from ocs_codesign.jobs.training.step import StepEstimate

_DEGREES = (
    "tensor",
    "context",
    "pipeline",
    "data",
    "expert",
    "expert_tensor",
    "replicas",
    "chunks",
)


def division_text(division: Division) -> str:
    """A division in words.

    >>> from ocs_codesign.jobs.training.division import Division
    >>> division_text(Division(8, 4, zero=1))
    '4 tensor, 8 data, zero 1, microbatch 1'
    """
    degrees = [f"{getattr(division, n)} {n}" for n in _DEGREES if getattr(division, n) > 1]
    degrees += [f"zero {division.zero}"] if division.zero else []
    degrees.append(f"microbatch {division.microbatch}")
    if division.recompute != "none":
        some = division.recompute_layers
        degrees.append(f"recompute {division.recompute}")
        degrees[-1] += "" if some is None else f" of {some} layers a stage"
    degrees += [] if division.schedule == "1f1b" else [division.schedule]
    degrees += [f"{division.offload:.0%} of activations at the host"] if division.offload else []
    return ", ".join(degrees)


made(
    "step",
    stages=lambda step: step.division.layers(step.model),
    mfu=lambda step: step.utilisation("model_causal"),
    mfu_full=lambda step: step.utilisation("model_full"),
    hfu=lambda step: step.utilisation("hardware_causal"),
    fitted=lambda step: step.room.chip.is_fitted(step.method.precision),
    goodput=lambda step: goodput_of(step),
    usd_a_million_tokens=lambda step: _prices(step, goodput_of(step)),
    places=lambda step: _places_of(step),
)


def goodput_of(step: StepEstimate) -> Goodput | None:
    """What its job keeps of its time, None where nothing is said of failures."""
    from ocs_codesign.jobs.training.operation import goodput

    return None if step.room.failures is None else goodput(step.room.failures, step)


def _places_of(step: StepEstimate) -> HeldPlaces | None:
    """When experts that are placed by popularity are placed anew."""
    from ocs_codesign.jobs.training.places import held_places

    return held_places(step)


def _prices(step: StepEstimate, kept: Goodput | None) -> dict[str, float] | None:
    """US dollars of a million tokens that stay: of accelerators, if known, and of the fabric."""
    from ocs_codesign.jobs.training.operation import usd_a_million_tokens

    costs = step.room.costs
    if costs is None:
        return None
    each, fabric = usd_a_million_tokens(costs, step, 1.0 if kept is None else kept.share)
    known = {} if costs.accelerator_hour_usd is None else {"accelerators": each}
    return {**known, "fabric": fabric}


def _running_facts(step: StepEstimate) -> Iterator[tuple[str, str]]:
    """Goodput and prices for people, where the cluster's file says what they follow from."""
    kept = goodput_of(step)
    if kept is not None:
        hosts = "" if kept.available > 0.99995 else f", enough hosts {kept.available:.2%} of it"
        yield (
            "goodput",
            f"{kept.share:.1%} of the time with {kept.interruptions_a_day:.3g} interruptions a day "
            f"and a checkpoint of {format_time(kept.checkpoint_s)} every "
            f"{format_time(kept.checkpoint_every_s)}{hosts}",
        )
    prices = _prices(step, kept)
    if prices is not None and "accelerators" in prices:
        yield (
            "a million tokens",
            f"{prices['accelerators']:.4g} US$ of accelerators, {prices['fabric']:.3g} of fabric",
        )


def _places_facts(step: StepEstimate) -> Iterator[tuple[str, str]]:
    """The same for people."""
    places = _places_of(step)
    if places is None:
        return
    held, first, anew = map(format_time, (places.step_s, places.never_s, places.always_s))
    moved, steps = format_time(places.move_s), places.num_steps
    changed = ", ".join(map(str, places.changed_at))
    if changed:
        text = f"placed anew at steps {changed} of {steps}, {moved} each at most"
    else:
        text = f"never placed anew in {steps} steps: it takes {moved}, which no regret pays for"
    yield "experts' places", text
    yield (
        "experts' layers",
        f"{held} of a step with moves, {first} in the first places, {anew} placed anew each step",
    )


def step_sections(name: str, cluster: str, step: StepEstimate) -> Iterator[Section]:
    """The same for people."""
    tokens = step.tokens_per_second_per_accelerator
    yield Facts(
        ("job", f"{name} on {cluster}, {step.method.software.name}, {step.method.precision}"),
        ("division", division_text(step.division)),
        ("step", f"{format_time(step.seconds)}, {_error_text(step)}"),
        ("tokens a second", f"{tokens:,.0f} of an accelerator, {_whole(step):,.0f} in all"),
        (
            "MFU",
            f"{step.utilisation():.1%} with causal attention, "
            f"{step.utilisation('model_full'):.1%} with all scores counted",
        ),
        ("HFU", f"{step.utilisation('hardware_causal'):.1%}"),
        *_running_facts(step),
        *_places_facts(step),
    )
    yield ""
    parts = sorted(step.parts.items(), key=lambda part: -part[1])
    rows = [
        (format_time(seconds), f"{seconds / step.seconds:.1%}", part)
        for part, seconds in parts
        if seconds
    ]
    yield Table(("time", "share", "part"), rows, 2)
    yield ""
    kinds = [(_gigabytes(held), kind) for kind, held in step.memory.items() if held]
    kinds.append((_gigabytes(step.memory_bytes), "all, on the rank that holds the most"))
    yield Table(("memory", "of"), kinds, 1)
    yield from _notes(step.notes)


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.4g} GB"


def _whole(step: StepEstimate) -> float:
    return step.tokens_per_second_per_accelerator * step.division.num_ranks


def _error_text(step: StepEstimate) -> str:
    if step.method.software.is_calibrated:
        return "with factors fitted to measured steps"
    if not step.room.chip.is_fitted(step.method.precision):
        return "not fitted: no published run of this accelerator was at hand"
    return f"median error of published runs {step.relative_error:.0%}"


def _notes(notes: Iterable[str]) -> Iterator[Section]:
    for note in notes:
        yield ""
        yield f"{note[0].upper()}{note[1:]}."


made(
    "step.step_ranking",
    ranked=lambda name, cluster, ranking: [
        {"name": name, "cluster": cluster, **records()["step"].json(step)}
        for step in ranking.ranked
    ],
    given=lambda name, cluster, ranking: (
        ranking.given
        and {"name": name, "cluster": cluster, **records()["step"].json(ranking.given)}
    ),
)


def step_ranking_sections(name: str, cluster: str, ranking: StepRanking) -> Iterator[Section]:
    """The fastest divisions, and the one of the file beside them."""
    best = ranking.ranked[0]
    yield from step_sections(name, cluster, best)
    yield ""
    rows = [_row(step, best, division_text(step.division)) for step in ranking.ranked]
    if ranking.given is not None:
        rows.append(_row(ranking.given, best, f"{division_text(ranking.given.division)} (file)"))
    if ranking.refused is not None:
        rows.append(("none", "", "", "", f"{ranking.refused} (file)"))
    yield Table(("step", "to best", "MFU", "memory", "division"), rows, 4, texts=1)
    yield (
        f"{ranking.num_divisions:,} divisions: {ranking.num_too_large:,} need too much memory, "
        f"{ranking.num_estimated:,} were estimated; {ranking.proof}."
    )
    if ranking.advice is not None:
        yield f"{ranking.advice[0].upper()}{ranking.advice[1:]}."


def _row(step: StepEstimate, best: StepEstimate, text: str) -> tuple[str, ...]:
    return (
        format_time(step.seconds),
        f"{step.seconds / best.seconds:.3f}",
        f"{step.utilisation():.1%}",
        _gigabytes(step.memory_bytes),
        text,
    )


POORLY_APART = 0.02
"""Below this the effects of two factors on the measured steps are alike."""


made(
    "step.step_calibration",
    name=lambda found: found.steps[0].step.name,
    software=lambda found: found.steps[0].estimate.method.software.name,
    accelerator=lambda found: found.steps[0].estimate.room.chip.name,
)


def step_calibration_sections(found: StepCalibration, *, out: str | None) -> Iterator[Section]:
    """The same for people."""
    first = found.steps[0].estimate
    yield Facts(
        ("job", f"{found.steps[0].step.name}, {first.method.software.name}"),
        ("accelerator", first.room.chip.name),
        ("factors", ", ".join(f"{name} {value:.4g}" for name, value in found.factors.items())),
        ("median error", f"{found.error_before:.1%} before, {found.error_after:.1%} after"),
        ("written to", out),
    )
    rows = [
        (
            format_time(each.seconds),
            f"{each.before_s / each.seconds - 1:+.1%}",
            f"{each.estimate.seconds / each.seconds - 1:+.1%}",
            division_text(each.step.division),
        )
        for each in found.steps
    ]
    yield Table(("measured", "before", "after", "division"), rows, 3, texts=1)
    if found.apart < POORLY_APART:
        yield (
            "These steps cannot tell products, elementwise kernels and attention apart: take the "
            "factors together, for jobs like these."
        )
