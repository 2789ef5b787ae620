"""Slices of a pod: what an all-to-all takes on tori, twisted tori, the best lattices and lifts.

Cubes of 4 x 4 x 4 chips with fixed links, joined by free circuits. U is the time in which all pairs
of chips exchange a unit. Tori are the best ones of so many cubes, twisted ones are those that are
offered; lattices are all looked at; lifts are the best that are known, as stored beside their
permutations. No permutations at all are below the bound.

    python experiments/pod_slices.py [--quick] [--out DIR]

writes figures/pod_slices.csv and .png in a minute; --quick has up to 4 cubes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from reporting import KAUTZ, OURS, PUBLISHED, RING, Report, new_figure, parse_arguments, publish

from ocs_codesign.core.compute.integers import divisors
from ocs_codesign.fabric.pods.description import is_twistable, load_pod, slice_of
from ocs_codesign.search.pods.bound import pod_bound
from ocs_codesign.search.pods.cost import pod_cost
from ocs_codesign.search.pods.design import best_lattices, known_costs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.figure import Figure

CUBES, QUICK = (2, 3, 4, 6, 8, 12, 16, 32, 64), (2, 3, 4)
KINDS = {"torus": RING, "twisted": KAUTZ, "lattice": PUBLISHED, "lift": OURS}
FIELDS = ("cubes", "chips", "bound", *KINDS, *(f"{kind}_over_bound" for kind in KINDS))


def rows(asked: Sequence[int]) -> Iterator[dict[str, object]]:
    """A row a number of cubes."""
    pod, stored = load_pod("tpu-v4"), known_costs()
    for cubes in asked:
        shapes = [
            (4 * a, 4 * b, 4 * cubes // (a * b))
            for a in divisors(cubes)
            for b in divisors(cubes // a)
            if a <= b <= cubes // (a * b)
        ]
        chips, bound = 64 * cubes, pod_bound(pod.cube, cubes).least
        found = {
            "torus": min(Fraction(chips * shape[-1], 8) for shape in shapes),
            "lattice": best_lattices(pod.cube, cubes)[0].cost.value,
        }
        for shape in filter(is_twistable, shapes):
            twisted = slice_of(f"{'x'.join(map(str, shape))}_twisted", pod)
            found["twisted"] = pod_cost(pod.cube, twisted.circuits()).value
        if cubes in stored:
            found["lift"] = stored[cubes]
        row: dict[str, object] = {"cubes": cubes, "chips": chips, "bound": f"{float(bound):.4f}"}
        for kind, value in found.items():
            row[kind] = f"{float(value):.4f}"
            row[f"{kind}_over_bound"] = f"{float(value / bound):.4f}"
        yield row


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """Over the bound of all permutations, a line a kind."""
    figure, (axes,) = new_figure(7.4, 3.9, 1, 1)
    for kind, colour in KINDS.items():
        here = [(at, row) for at, row in enumerate(table) if f"{kind}_over_bound" in row]
        over = [float(str(row[f"{kind}_over_bound"])) for _, row in here]
        (line,) = axes.plot([at for at, _ in here], over, "o-", color=colour, label=kind, ms=5)
        if kind == "twisted":
            line.set(linestyle="none", marker="D", markersize=10, fillstyle="none")
    axes.axhline(1, color="#222222", linewidth=0.9, linestyle=(0, (4, 2)))
    axes.set_xticks(range(len(table)), [str(row["cubes"]) for row in table])
    axes.set_xlabel("cubes of 64 chips")
    axes.set_ylabel("all-to-all time over the\nbound of all permutations")
    axes.set_ylim(0.95, None)
    axes.legend(frameon=False, fontsize=9)
    axes.set_title("Slices of a pod: the same cubes, other circuits", fontsize=11)
    return figure


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    table = list(rows(QUICK if arguments.quick else CUBES))
    publish(Report("pod_slices", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
