"""Demand matrices on one circuit switch: plans and what makes them, over the proven bound.

Four kinds of demand of N nodes: uniform (entries evenly from 1 to 100), experts (every node sends
1000 tokens to experts, one a node, whose popularity falls as 1 / rank and varies by node), sparse
(a node sends to a quarter of the others) and mix (a sum of N / 2 + 1 random permutations with times
from 1 to 100). A configuration costs delta, as a share of the mean entry of the busiest line (its
sum over N). Times are means over the instances, each over its bound: that of the plan, the best of
line sums, prices and, for small N, the search of all plans. The bound is not met by every optimum,
so a part of the distance is the bound's. Plan is what the toolkit answers: the greedy cover,
improved by local search (of few rounds for N = 32) and for small N by a search of all plans.
Birkhoff with a threshold that is halved is what Solstice does (Liu et al. 2015); most served per
time is Eclipse's greedy step (Venkatakrishnan et al. 2016).

    python experiments/demand_matrices.py [--quick] [--out DIR]

writes figures/demand_matrices.csv and .png in some minutes; --quick runs N = 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from reporting import (
    KAUTZ,
    OURS,
    PUBLISHED,
    RING,
    TREE,
    Report,
    new_figure,
    parse_arguments,
    plain_log_axis,
    publish,
)

from ocs_codesign.circuits.demand.covers import Covers, birkhoff, busiest_first, greedy
from ocs_codesign.circuits.demand.matrix import DemandMatrix, demand_ticks
from ocs_codesign.circuits.demand.planner import DemandEffort, demand_baselines, plan_demand

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

KINDS = ("uniform", "experts", "sparse", "mix")
SHARES = (Fraction(1, 100), Fraction(1, 10), Fraction(1))
INSTANCES = 2
QUICK = (4,)
SIZES = (*QUICK, 8, 16, 32)
SEED = 2016
EFFORT = DemandEffort(search_nodes=100_000, programs=40)
ROUNDS_UP_TO, FEW_ROUNDS = 16, 1600

PLAN, GREEDY, ECLIPSE = "plan", "greedy cover", "most served per time"
SOLSTICE, BIRKHOFF, ROBIN = "Birkhoff, threshold halved", "Birkhoff, largest first", "round robin"
METHODS = (PLAN, GREEDY, ECLIPSE, SOLSTICE, BIRKHOFF, ROBIN)
FIELDS = (
    *("kind", "nodes", "delta_over_mean_entry", "method", "time_over_bound", "configurations"),
    *("proven_optimal", "instances"),
)
STYLES: dict[str, dict[str, Any]] = {
    ROBIN: {"color": RING, "marker": "v"},
    SOLSTICE: {"color": TREE, "marker": "D", "markersize": 5},
    BIRKHOFF: {"color": KAUTZ, "marker": "x"},
    ECLIPSE: {"color": PUBLISHED, "marker": "s", "fillstyle": "none", "markersize": 7},
    GREEDY: {"color": OURS, "marker": "o", "fillstyle": "none", "markersize": 5, "ls": "--"},
    PLAN: {"color": OURS, "marker": "o", "markersize": 5},
}
TICKS = (0, 1, 3, 10, 30, 100, 500)


def entries(kind: str, nodes: int, instance: int) -> NDArray[np.int64]:
    """A demand of that kind; nodes have nothing for themselves, but in a mix."""
    random = np.random.default_rng((SEED, KINDS.index(kind), nodes, instance))
    if kind == "mix":
        made = np.zeros((nodes, nodes), dtype=np.int64)
        for _ in range(nodes // 2 + 1):
            made[np.arange(nodes), random.permutation(nodes)] += random.integers(1, 101)
        return made
    made = random.integers(1, 101, (nodes, nodes))
    if kind == "experts":
        popularity = random.gamma(1.0, 1 / random.permutation(np.arange(1, nodes + 1)), made.shape)
        shares = popularity / popularity.sum(axis=1, keepdims=True)
        made = np.array([random.multinomial(1000, share) for share in shares])
    np.fill_diagonal(made, 0)
    if kind == "sparse":
        kept = np.zeros_like(made)
        for row in range(nodes):
            others = [node for node in range(nodes) if node != row]
            chosen = random.choice(others, max(2, nodes // 4), replace=False)
            kept[row, chosen] = made[row, chosen]
        return kept
    return made


def times(made: NDArray[np.int64], share: Fraction) -> dict[str, tuple[float, int, bool]]:
    """Every method's time over the bound, its configurations, and whether it is proven optimal."""
    demand, nodes = DemandMatrix(made), len(made)
    delta = share * demand.max_line_bytes / nodes
    rounds = None if nodes <= ROUNDS_UP_TO else FEW_ROUNDS
    effort = DemandEffort(EFFORT.seed, rounds, EFFORT.search_nodes, EFFORT.programs)
    plan = plan_demand(demand, delta, effort=effort)
    found = {PLAN: (plan.total_s, plan.num_configurations)}
    ticks = demand_ticks(demand, Fraction(1), delta)
    ways = {
        ECLIPSE: busiest_first(ticks, power=0.0, finish=0.0),
        SOLSTICE: birkhoff(ticks.demand, 8),
        BIRKHOFF: birkhoff(ticks.demand, 15),
    }
    covers = {
        name: Covers.of(ticks, 1, permutations[None], spans[None].astype(float))
        for name, (permutations, spans) in ways.items()
    }
    for name, cover in {GREEDY: greedy(ticks, 1)[0], **covers}.items():
        found[name] = (int(cover.cost[0]) * ticks.tick_s, int((cover.times > 0).sum()))
    shifts = sum(1 for r in range(nodes) if np.roll(made, -r, axis=1).diagonal().any())
    found[ROBIN] = (demand_baselines(plan).fitted_round_robin_s, shifts)
    return {
        name: (float(total / plan.bound_s), many, total == plan.bound_s)
        for name, (total, many) in found.items()
    }


def rows(kind: str, nodes: int, share: Fraction) -> list[dict[str, object]]:
    """A row a method: means over the instances."""
    all_times = [times(entries(kind, nodes, instance), share) for instance in range(INSTANCES)]
    table: list[dict[str, object]] = []
    for method in METHODS:
        here = [found[method] for found in all_times if method in found]
        if here:
            table.append(
                {
                    "kind": kind,
                    "nodes": nodes,
                    "delta_over_mean_entry": float(share),
                    "method": method,
                    "time_over_bound": f"{np.mean([one[0] for one in here]):.3f}",
                    "configurations": f"{np.mean([one[1] for one in here]):.1f}",
                    "proven_optimal": sum(one[2] for one in here),
                    "instances": len(here),
                }
            )
    return table


def picture(table: Sequence[dict[str, object]]) -> Figure:
    """A panel a kind and delta: by how much times are over the bound, against N."""
    figure, panels = new_figure(10.4, 11, len(KINDS), len(SHARES))
    at = iter(panels)
    for kind in KINDS:
        for share in SHARES:
            axes = next(at)
            for method, style in STYLES.items():
                here = [
                    line
                    for line in table
                    if (line["kind"], line["delta_over_mean_entry"], line["method"])
                    == (kind, float(share), method)
                ]
                axes.plot(
                    [int(str(line["nodes"])) for line in here],
                    [100 * (float(str(line["time_over_bound"])) - 1) for line in here],
                    **{"linewidth": 0.9, "label": method, **style},
                )
            plain_log_axis(axes, "x", sorted({int(str(line["nodes"])) for line in table}))
            _percent_axis(axes)
            if kind == KINDS[0]:
                axes.set_title(f"dead time δ = {float(share):g} mean entries", fontsize=10.5)
            if kind == KINDS[-1]:
                axes.set_xlabel("nodes N")
            if share == SHARES[0]:
                axes.set_ylabel(f"{kind}: time\nover the bound")
    lines, names = panels[0].get_legend_handles_labels()
    figure.legend(lines, names, frameon=False, fontsize=9, loc="outside lower center", ncols=4)
    figure.suptitle("Demand matrices on one circuit switch", fontsize=11.5)
    return figure


def _percent_axis(axes: Axes) -> None:
    """A vertical axis that is linear up to a percent, so that it has 0, and then logarithmic."""
    from matplotlib.ticker import NullLocator

    axes.set_yscale("symlog", linthresh=1)
    axes.set_yticks(TICKS)
    axes.set_yticklabels([f"{tick} %" for tick in TICKS])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-0.15, 1.3 * TICKS[-1])


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    sizes = QUICK if arguments.quick else SIZES
    table = [
        line
        for kind in KINDS
        for nodes in sizes
        for share in SHARES
        for line in rows(kind, nodes, share)
    ]
    publish(Report("demand_matrices", FIELDS, table, picture(table)), arguments)


if __name__ == "__main__":
    main()
