"""Trees of several kinds, each of which spans other switches, that share the links.

Where all trees span the same switches, they all pay for reaching them: of two rails between boxes
a tree needs one. Which switches the next kind should span is what links are worth: a linear
program of the kinds there are prices them, and the cheapest trees at these prices tell (Dantzig and
Wolfe, 1960; the trees by Takahashi and Matsuyama, 1980, so that a kind may be missed).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from ocs_codesign.schedulers.forest.shares import Tenant, best_shares, link_prices
from ocs_codesign.schedulers.forest.spanning import comes_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from ocs_codesign.schedulers.forest.group_task import GroupTask
    from ocs_codesign.schedulers.forest.spanning import Found, Tasks

    Switches = NDArray[np.bool_]

MAX_LINKS = 400
"""Links up to which kinds are mixed: the program grows with every kind."""

_MAX_KINDS, _KINDS_A_ROUND = 12, 2
_CLOSE = 1e-9
"""Rates in floats that are as good as equal, and rates that are as good as none."""

_HOP = 1e-6
"""What a link costs at least, of the highest price: short paths are better than long ones."""


def mixed_spanning(
    tasks: Tasks, spanned: Tasks, found: Found, num_hosts: int, most: Fraction
) -> tuple[Tasks, Found]:
    """Tasks of several kinds, one after the other, and what they reach, if that is more.

    ``tasks`` say which switches are able; ``spanned`` are the best of one kind, and reach
    ``found``; ``most`` is a rate that nothing exceeds. A kind has a rate of its own, and each of
    its tasks a share of the links. Where hosts are relays there is one kind (see ``spanning``).
    """
    first = tasks[0].problem
    able = np.any([task.able for task in tasks], axis=0)
    has_relays = not all(task.problem.is_rank[:num_hosts].all() for task in tasks)
    if found[0] >= most or has_relays or not able.any() or len(first.capacity) > MAX_LINKS:
        return spanned, found
    kinds = [able & np.any([task.problem.is_rank for task in spanned], axis=0)]
    while True:
        rates, prices = link_prices(_tenants(tasks, kinds))
        if rates.sum() >= float(most) * (1 - _CLOSE) or len(kinds) >= _MAX_KINDS:
            break
        new = _new_kinds(tasks, prices, kinds)
        if not new:
            break
        kinds += new
    order = np.argsort(-rates, kind="stable")
    kinds = [kinds[at] for at in order if rates[at] > _CLOSE * rates.sum()]
    shares = best_shares(_tenants(tasks, kinds))
    if shares.total_rate <= found[0]:
        return spanned, found
    mixed = tuple(task.spanning(kind) for kind in kinds for task in tasks)
    return mixed, (shares.total_rate, shares)


def _tenants(tasks: Tasks, kinds: Sequence[Switches]) -> list[Tenant]:
    """The tasks of every kind, which have its rate."""
    return [
        Tenant(task.spanning(kind), np.where(weight > 0, at, -1), weight)
        for at, kind in enumerate(kinds)
        for task, weight in ((task, task.problem.weight) for task in tasks)
    ]


def _new_kinds(
    tasks: Tasks, prices: NDArray[np.float64], kinds: Sequence[Switches]
) -> list[Switches]:
    """Kinds of the cheapest trees that are not there yet; more is tried where there are none."""
    paths = [_Paths(task, prices) for task in tasks]
    for is_thorough in (False, True):
        counted: Counter[bytes] = Counter()
        for each in paths:
            counted.update(kind.tobytes() for kind in each.branching(is_thorough=is_thorough))
        known = {kind.tobytes() for kind in kinds}
        new = [np.frombuffer(kind, bool) for kind, _ in counted.most_common() if kind not in known]
        new = [kind for kind in new if not any(comes_back(task, kind) for task in tasks)]
        if new:
            return new[:_KINDS_A_ROUND]
    return []


class _Paths:
    """The cheapest paths between nodes at some prices, and cheap trees made of them."""

    def __init__(self, task: GroupTask, prices: NDArray[np.float64]) -> None:
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import dijkstra

        problem = self.problem = task.problem
        shape = (problem.num_nodes, problem.num_nodes)
        cost = prices + _HOP * max(float(prices.max()), _HOP)
        graph = csr_matrix((cost, (problem.tail, problem.head)), shape=shape)
        self.far, self.before = dijkstra(graph, return_predecessors=True)
        self.able, self.may_branch = task.able, problem.is_rank | task.able

    def branching(self, *, is_thorough: bool) -> Iterator[Switches]:
        """Of a cheap tree from every root the switches (bool, nodes) at which it branches.

        A thorough search begins trees with one more switch as long as that makes them cheaper.
        """
        for root in np.flatnonzero(self.problem.weight > 0).tolist():
            first = np.zeros_like(self.able)
            able = self.able & np.isfinite(self.far[root])
            cost, branching = self.tree(root, first)
            while is_thorough:
                trials = []
                for switch in np.flatnonzero(able & ~first).tolist():
                    more = first.copy()
                    more[switch] = True
                    trials.append((*self.tree(root, more), more))
                best = min(trials, key=lambda trial: trial[0], default=None)
                if best is None or best[0] >= cost * (1 - _CLOSE):
                    break
                cost, branching, first = best
            yield branching

    def tree(self, root: int, first: Switches) -> tuple[float, Switches]:
        """What a tree costs that leads to some switches first, but for idle ones; its branchings.

        The node that is nearest to what is reached joins it by its cheapest path, until all are
        there.
        """
        nodes, far = self.problem.num_nodes, self.far
        near, origin = far[root].copy(), np.full(nodes, root)
        missing = self.problem.is_rank | first
        missing[root] = False
        above, order = np.full(nodes, -1), [root]
        while missing.any():
            wanted = missing & first if (missing & first).any() else missing
            to = int(np.where(wanted, near, np.inf).argmin())
            path, node = [to], to
            while node != origin[to]:
                node = int(self.before[origin[to], node])
                if self.may_branch[node]:
                    path.append(node)
            above[path[:-1]] = path[1:]
            missing[path] = False
            for node in path[-2::-1]:
                order.append(node)
                is_nearer = far[node] < near
                near[is_nearer], origin[is_nearer] = far[node][is_nearer], node
        children, cost = np.zeros(nodes, dtype=np.int64), 0.0
        for node in order[:0:-1]:
            if children[node] or self.problem.is_rank[node]:
                children[above[node]] += 1
                cost += float(far[above[node], node])
        return cost, (children > 1) & ~self.problem.is_rank
