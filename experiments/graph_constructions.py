"""Edge lists of classical graphs from their definitions, on nodes 0, 1, ..., N - 1.

An undirected edge is listed once or twice, in either direction; the caller normalizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import TypeVar

from incidence_geometries import Edges, difference_set_incidence, incidence_edges

T = TypeVar("T")


def related(items: Sequence[T], adjacent: Callable[[T, T], bool]) -> Edges:
    """Edges between the positions of any two items which are adjacent."""
    pairs = combinations(range(len(items)), 2)
    return [(i, j) for i, j in pairs if adjacent(items[i], items[j])]


def multipartite(parts: int, size: int) -> Edges:
    """The complete multipartite graph with equal parts, K_n if their size is 1."""
    return related(range(parts * size), lambda i, j: i // size != j // size)


def crown(n: int) -> Edges:
    """K_{n,n} minus a perfect matching."""
    return [(i, n + j) for i, j in product(range(n), repeat=2) if i != j]


def lcf(shifts: Sequence[int], repeats: int) -> Edges:
    """The cubic Hamiltonian graph of an LCF code [shifts]^repeats (Frucht, 1976)."""
    n = len(shifts) * repeats
    chords = [(i, (i + shifts[i % len(shifts)]) % n) for i in range(n)]
    return [(i, (i + 1) % n) for i in range(n)] + chords


def generalized_petersen(n: int, k: int) -> Edges:
    """The generalized Petersen graph GP(n, k) (Watkins, 1969): outer cycle, spokes, star {n/k}."""
    rows = [[(i, (i + 1) % n), (i, n + i), (n + i, n + (i + k) % n)] for i in range(n)]
    return [edge for row in rows for edge in row]


def cayley(moduli: Sequence[int], generators: Sequence[Sequence[int]]) -> Edges:
    """Links x -> x + g of the Cayley digraph of a product of cyclic groups."""
    elements = list(product(*map(range, moduli)))
    number = {x: i for i, x in enumerate(elements)}

    def moved(x: Sequence[int], g: Sequence[int]) -> tuple[int, ...]:
        return tuple((a + b) % m for a, b, m in zip(x, g, moduli, strict=True))

    return [(number[x], number[moved(x, g)]) for x in elements for g in generators]


def hypercube(dimension: int) -> Edges:
    """The hypercube: bit strings, adjacent when they differ in one bit."""
    return related(range(1 << dimension), lambda x, y: (x ^ y).bit_count() == 1)


def folded_cube(dimension: int) -> Edges:
    """The folded cube: the hypercube of one dimension less plus its antipodal pairs."""
    bits = (1, dimension - 1)
    return related(range(1 << (dimension - 1)), lambda x, y: (x ^ y).bit_count() in bits)


def twisted_3_cube() -> Edges:
    """TQ_3 (Hilbers, Koopman and van de Snepscheut, 1987; Esfahanian, Ni and Sagan, 1991).

    On the face of the 3-cube with lowest bit 0 the parallel edges 000-010 and 100-110 are crossed;
    the result is isomorphic to the Möbius ladder on 8 nodes, the Wagner graph.
    """
    kept = [edge for edge in hypercube(3) if edge not in ((0b000, 0b010), (0b100, 0b110))]
    return [*kept, (0b000, 0b110), (0b010, 0b100)]


def line_graph(edges: Edges) -> Edges:
    """The edges of a graph, in sorted order, adjacent when they share an end."""
    ends = [frozenset(edge) for edge in sorted({(min(edge), max(edge)) for edge in edges})]
    return related(ends, lambda e, f: not e.isdisjoint(f))


def odd(k: int) -> Edges:
    """The odd graph O_k (Kneser, 1955; Biggs, 1974): (k-1)-subsets of 2k-1 points, disjoint."""
    return related(_subsets(2 * k - 1, k - 1), frozenset.isdisjoint)


def doubled_odd(k: int) -> Edges:
    """The doubled odd graph: (k-1)- and k-subsets of 2k-1 points, adjacent by inclusion."""
    return related(_subsets(2 * k - 1, k - 1) + _subsets(2 * k - 1, k), frozenset.__lt__)


def coxeter() -> Edges:
    """Coxeter's graph (Tutte, 1960; Coxeter, 1983): triples not lines of PG(2,2), disjoint."""
    fano: dict[int, set[int]] = {}
    for point, line in difference_set_incidence(7, (0, 1, 3)):
        fano.setdefault(line, set()).add(point)
    triples = [triple for triple in _subsets(7, 3) if triple not in fano.values()]
    return related(triples, frozenset.isdisjoint)


def tutte_coxeter() -> Edges:
    """Tutte's 8-cage (Tutte, 1947; Coxeter, 1958): the 15 duads in the 15 synthemes of 6 points."""
    duads = _subsets(6, 2)
    trios = combinations(duads, 3)
    return incidence_edges(duads, [trio for trio in trios if len(frozenset.union(*trio)) == 6])


def biggs_smith() -> Edges:
    """The Biggs-Smith graph (Biggs and Smith, 1971): 17 copies of the letter H in a ring.

    Copy i has the joints a_i - b_i, feet p_i, q_i at a_i and r_i, s_i at b_i; equal feet of the
    copies form the cycles and stars {17/1}, {17/4}, {17/2}, {17/8}.
    """
    strokes = [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5)]
    letters = [(17 * x + i, 17 * y + i) for x, y in strokes for i in range(17)]
    steps = {2: 1, 3: 4, 4: 2, 5: 8}
    rings = [(17 * x + i, 17 * x + (i + k) % 17) for x, k in steps.items() for i in range(17)]
    return letters + rings


def hoffman_singleton() -> Edges:
    """The Moore graph of Hoffman and Singleton (1960), as Robertson (1969) draws it.

    Five pentagons P_h, five pentagrams Q_i, and node j of P_h joined to node h i + j of Q_i.
    """
    fives = list(product(range(5), repeat=2))
    pentagons = [(5 * h + j, 5 * h + (j + 1) % 5) for h, j in fives]
    pentagrams = [(25 + 5 * i + j, 25 + 5 * i + (j + 2) % 5) for i, j in fives]
    joints = [(5 * h + j, 25 + 5 * i + (h * i + j) % 5) for h, j in fives for i in range(5)]
    return pentagons + pentagrams + joints


def icosahedron() -> Edges:
    """The icosahedron: a pentagonal antiprism, rings 1-5 and 6-10, with apices 0 and 11."""
    five = range(5)
    caps = [(0, 1 + i) for i in five] + [(11, 6 + i) for i in five]
    rings = [(base + i, base + (i + 1) % 5) for base in (1, 6) for i in five]
    band = [(1 + i, 6 + j % 5) for i in five for j in (i, i + 1)]
    return caps + rings + band


def _subsets(n: int, size: int) -> list[frozenset[int]]:
    """The subsets of {0, ..., n - 1} of that size, in lexicographic order."""
    return [frozenset(subset) for subset in combinations(range(n), size)]
