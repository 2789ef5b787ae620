"""The answers of ``pod``: what slices cost, designs, packings, goodput and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.faces.answers.bundles import SIZES, bundle_facts
from ocs_codesign.faces.answers.declared import made, records
from ocs_codesign.faces.answers.sections import Facts, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from ocs_codesign.fabric.bundle.write.bundle import BundlePlace
    from ocs_codesign.fabric.pods.description import PodDescription
    from ocs_codesign.fabric.pods.packing import Packing
    from ocs_codesign.fabric.pods.placing import PlacedPod
    from ocs_codesign.fabric.pods.survival import PodPaths, PodSurvival
    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.graphs.families.pods import Pod
    from ocs_codesign.search.pods.cost import PodCost
    from ocs_codesign.search.pods.design import PodDesign


def number_text(value: Fraction) -> str:
    """A number, with the fraction that it is where that is short.

    >>> from fractions import Fraction
    >>> number_text(Fraction(220, 3)), number_text(Fraction(184))
    ('73.3333 (220/3)', '184')
    """
    rounded = f"{float(value):.6g}"
    return f"{rounded} ({value})" if 1 < value.denominator < 10**5 else rounded


def known_text(found: PodCost) -> str:
    """How well a cost is known, in words."""
    if found.is_optimal:
        return f"the best routing, proven ({found.proof})"
    if found.proof == "BFB":
        return f"a schedule of BFB; none takes less than {number_text(found.bound)}"
    least = f"none takes less than {number_text(found.bound)}"
    return f"{least}, {100 * float(found.gap):.2g} % below ({found.proof})"


def cost_sections(slice_: Pod, found: PodCost, collective: str) -> Iterator[Section]:
    """What a slice costs beside what any costs at least."""
    over = 100 * (float(found.value / found.bound_all) - 1)
    yield Facts(
        ("slice", repr(slice_) if len(repr(slice_)) < 200 else slice_.label()),
        ("chips", f"{found.num_nodes}, in {slice_.num_cubes} cubes"),
        ("collective", collective),
        ("U", number_text(found.value)),
        ("known", known_text(found)),
        ("any permutations", f"at least {number_text(found.bound_all)}; this is {over:.3g} % more"),
        ("t_b", number_text(found.t_b)),
        ("steps", found.steps),
        ("diameter", found.diameter),
    )


_MOST_ROWS = 12
made("pod.survive", changed=lambda found: [each._asdict() for each in found.changed])
made("pod.deployed", slices=lambda placed: placed, **SIZES)
made("pod.pack", placed=lambda found: [each._asdict() for each in found.placed])


def design_sections(
    best: PodDesign, found: Sequence[PodDesign], collective: str
) -> Iterator[Section]:
    """The best slice, and those that come after it."""
    yield from cost_sections(best.slice, best.cost, collective)
    yield ""
    rows = [
        (
            number_text(design.cost.value),
            number_text(design.cost.bound),
            str(design.cost.steps),
            design.slice.label(),
        )
        for design in found[:_MOST_ROWS]
    ]
    yield Table(("U", "at least", "steps", "slice"), rows, numbers=3)


def survive_sections(found: PodSurvival, lost: str) -> Iterator[Section]:
    """What a loss costs."""

    def told(cost: PodCost) -> str:
        more = 100 * (float(cost.value / found.before.value) - 1)
        return f"{number_text(cost.value)}, {more:.3g} % more: {known_text(cost)}"

    moved = f"{found.replaced} move to any cube that works, and the slice is as before"
    yield Facts(
        ("lost", lost),
        ("before", f"{number_text(found.before.value)}: {known_text(found.before)}"),
        ("circuits kept", None if found.replaced else told(found.kept)),
        ("circuits anew", None if found.anew is None else told(found.anew)),
        ("circuits", moved if found.replaced else f"{len(found.changed)} change"),
        ("stages", _stages_text(found) if found.stages else None),
        *zip(("paths before", "paths after"), map(_paths_text, found.paths), strict=False),
    )


def _stages_text(found: PodSurvival) -> str:
    """The order in which switches change."""
    order = ", ".join(" ".join(stage.switches) for stage in found.stages)
    joined = all(stage.stays_joined for stage in found.stages)
    meanwhile = "the others join all cubes" if joined else "not all cubes stay joined"
    return f"{len(found.stages)}, meanwhile {meanwhile}: {order}"


def _paths_text(paths: PodPaths) -> str:
    """How many channels paths need, and what they take."""
    return (
        f"free of deadlock on {paths.channels} virtual channels, t_b {number_text(paths.t_b)}, "
        f"{100 * paths.over:.2g} % more than the least"
    )


def pack_sections(found: Packing, pod: PodDescription) -> Iterator[Section]:
    """The cubes in use, and which job has which."""
    spare = ", ".join(map(str, found.spare))
    yield Facts(
        ("pod", f"{pod.name}: {pod.cubes} cubes, {found.healthy} work"),
        ("in use", f"{found.used} cubes; none uses more ({found.proof})"),
        ("spare", f"{spare}: if a cube dies, only its job moves, to one" if spare else None),
    )
    yield ""
    rows = [
        (str(len(each.cubes)), each.job, ", ".join(map(str, each.cubes))) for each in found.placed
    ]
    yield Table(("cubes", "job", "which"), rows, numbers=1, texts=1)


def goodput_sections(
    share: Fraction, cubes: int, availability: Fraction, pod: PodDescription
) -> Iterator[Section]:
    """The share that is of use."""
    yield Facts(
        ("pod", f"{pod.name}: {pod.cubes} cubes of {pod.hosts_of_a_cube} hosts"),
        ("slice", f"{cubes} cubes, any that work"),
        ("availability", f"{float(availability):g} of a host"),
        ("goodput", f"{float(share):.9g} of all cubes"),
    )


def deployed_sections(
    placed: Sequence[PlacedPod], manifest: dict[str, Any], place: BundlePlace
) -> Iterator[Section]:
    """Where every slice is, and the bundle."""
    answer = records()["pod.deployed"].json(placed, manifest, place)
    rows = [
        (str(len(each.cubes)), each.name, each.slice.label(), ", ".join(map(str, each.cubes)))
        for each in placed
    ]
    yield Table(("cubes", "name", "slice", "which"), rows, numbers=1, texts=1)
    yield ""
    yield bundle_facts(answer)
