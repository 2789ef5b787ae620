"""The answers of ``pod``: what slices cost, designs, packings, goodput and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.faces.answers.sections import Facts
from ocs_codesign.faces.answers.texts import t_b_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.graphs.families.pods import Pod
    from ocs_codesign.search.pods.cost import PodCost


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
        ("t_b", t_b_text(found.t_b)),
        ("steps", found.steps),
        ("diameter", found.diameter),
    )
