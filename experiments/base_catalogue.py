"""The catalogue of base graphs: how each is made, and the facts it is held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import graph_constructions as graphs
import incidence_geometries as geometries

Edges = list[tuple[int, int]]

BROUWER_KOOLEN = "Brouwer and Koolen, The distance-regular graphs of valency four (1999)"
BIGGS_ET_AL = "Biggs, Boshier and Shawe-Taylor, Cubic distance-regular graphs (1986)"
WATKINS = "Watkins, generalized Petersen graph (1969)"


@dataclass(frozen=True, slots=True)
class BaseGraph:
    """A graph's names, its construction, and what must come out of it.

    ``array`` is the intersection array of a distance-regular graph and None for the others;
    ``girth`` is None for directed graphs.
    """

    name: str
    label: str
    nodes: int
    degree: int
    steps: int
    girth: int | None
    array: str | None
    source: str
    make: Callable[[], Edges]
    directed: bool = False


def _line_graph_of(make: Callable[[], Edges]) -> Callable[[], Edges]:
    """The construction of the line graph of what another construction makes."""
    return lambda: graphs.line_graph(make())


_heawood = partial(geometries.difference_set_incidence, 7, (0, 1, 3))
_petersen = partial(graphs.generalized_petersen, 5, 2)
_pappus = partial(graphs.lcf, (5, 7, -7, 7, -7, -5), 3)
_foster = partial(graphs.lcf, (17, -9, 37, -37, 9, -17), 15)
_tutte_12_cage = partial(
    graphs.lcf, (17, 27, -13, -59, -35, 35, -11, 13, -53, 53, -27, 21, 57, 11, -21, -57, 59, -17), 7
)

# fmt: off
_VALENCY_4 = (
    BaseGraph("k5", "K5", 5, 4, 1, 3, "4;1",
              "complete graph", partial(graphs.multipartite, 5, 1)),
    BaseGraph("octahedron", "Octahedron", 6, 4, 2, 3, "4,1;1,4",
              "Platonic solid; K_{2,2,2}", partial(graphs.multipartite, 3, 2)),
    BaseGraph("k44", "K4,4", 8, 4, 2, 4, "4,3;1,4",
              "complete bipartite graph", partial(graphs.multipartite, 2, 4)),
    BaseGraph("paley9", "Paley(9)", 9, 4, 2, 3, "4,2;1,2",
              "Paley (1933), Sachs (1962); differences 1, -1, i, -i in GF(9) = GF(3)[i]",
              partial(graphs.cayley, (3, 3), ((1, 0), (0, 1)))),
    BaseGraph("k55_minus_matching", "K5,5 - 5K2", 10, 4, 3, 4, "4,3,1;1,3,4",
              "complete bipartite graph minus a perfect matching", partial(graphs.crown, 5)),
    BaseGraph("heawood_distance3", "Heawood dist-3", 14, 4, 3, 4, "4,3,2;1,2,4",
              "non-incident points and lines of the Fano plane; " + BROUWER_KOOLEN,
              partial(geometries.difference_set_incidence, 7, (2, 4, 5, 6))),
    BaseGraph("line_petersen", "L(Petersen)", 15, 4, 3, 3, "4,2,1;1,1,4",
              "line graph; " + BROUWER_KOOLEN, _line_graph_of(_petersen)),
    BaseGraph("tesseract", "Tesseract", 16, 4, 4, 4, "4,3,2,1;1,2,3,4",
              "hypercube of dimension 4", partial(graphs.hypercube, 4)),
    BaseGraph("line_heawood", "L(Heawood)", 21, 4, 3, 3, "4,2,2;1,1,2",
              "line graph; " + BROUWER_KOOLEN, _line_graph_of(_heawood)),
    BaseGraph("pg_2_3_incidence", "PG(2,3)", 26, 4, 3, 6, "4,3,3;1,1,4",
              "Singer (1938), difference set {0, 1, 3, 9} mod 13",
              partial(geometries.difference_set_incidence, 13, (0, 1, 3, 9))),
    BaseGraph("ag_2_4_minus_parallel_class", "AG(2,4) - class", 32, 4, 4, 6, "4,3,3,1;1,1,3,4",
              "points and lines y = m x + b over GF(4); " + BROUWER_KOOLEN,
              geometries.affine_plane_4_minus_class),
    BaseGraph("odd_4", "O4", 35, 4, 3, 6, "4,3,3;1,1,2",
              "Kneser (1955), Biggs (1974), odd graph", partial(graphs.odd, 4)),
    BaseGraph("line_tutte_coxeter", "L(Tutte-Coxeter)", 45, 4, 4, 3, "4,2,2,2;1,1,1,2",
              "line graph; " + BROUWER_KOOLEN, _line_graph_of(graphs.tutte_coxeter)),
    BaseGraph("doubled_odd_4", "Doubled O4", 70, 4, 7, 6, "4,3,3,2,2,1,1;1,1,2,2,3,3,4",
              "bipartite double of the odd graph; " + BROUWER_KOOLEN,
              partial(graphs.doubled_odd, 4)),
    BaseGraph("gq_3_3_incidence", "GQ(3,3)", 80, 4, 4, 8, "4,3,3,3;1,1,1,4",
              "Payne and Thas (1984), the symplectic quadrangle W(3)",
              geometries.symplectic_quadrangle_3),
    BaseGraph("line_tutte_12_cage", "L(Tutte 12-cage)", 189, 4, 6, 3, "4,2,2,2,2,2;1,1,1,1,1,2",
              "line graph; " + BROUWER_KOOLEN, _line_graph_of(_tutte_12_cage)),
    BaseGraph("delorme", "Delorme", 364, 4, 5, 6, None,
              "Delorme (1985), quotient of the hexagon H(3) by a polarity, absolute points joined",
              geometries.hexagon_quotient_3),
    BaseGraph("gh_3_3_incidence", "GH(3,3)", 728, 4, 6, 12, "4,3,3,3,3,3;1,1,1,1,1,4",
              "Tits (1959), the split Cayley hexagon H(3)", geometries.split_cayley_hexagon_3),
)

_VALENCY_3 = (
    BaseGraph("k4", "K4", 4, 3, 1, 3, "3;1",
              "complete graph", partial(graphs.multipartite, 4, 1)),
    BaseGraph("k33", "K3,3", 6, 3, 2, 4, "3,2;1,3",
              "complete bipartite graph", partial(graphs.multipartite, 2, 3)),
    BaseGraph("cube", "Cube", 8, 3, 3, 4, "3,2,1;1,2,3",
              "hypercube of dimension 3", partial(graphs.hypercube, 3)),
    BaseGraph("petersen", "Petersen", 10, 3, 2, 5, "3,2;1,1",
              "Petersen (1898); GP(5,2), " + WATKINS, _petersen),
    BaseGraph("heawood", "Heawood", 14, 3, 3, 6, "3,2,2;1,1,3",
              "Heawood (1890); Singer (1938), difference set {0, 1, 3} mod 7", _heawood),
    BaseGraph("pappus", "Pappus", 18, 3, 4, 6, "3,2,2,1;1,1,2,3",
              "Coxeter (1950); LCF code, Frucht (1976)", _pappus),
    BaseGraph("desargues", "Desargues", 20, 3, 5, 6, "3,2,2,1,1;1,1,2,2,3",
              "Coxeter (1950); GP(10,3), " + WATKINS, partial(graphs.generalized_petersen, 10, 3)),
    BaseGraph("dodecahedron", "Dodecahedron", 20, 3, 5, 5, "3,2,1,1,1;1,1,1,2,3",
              "Platonic solid; GP(10,2), " + WATKINS, partial(graphs.generalized_petersen, 10, 2)),
    BaseGraph("coxeter", "Coxeter", 28, 3, 4, 7, "3,2,2,1;1,1,1,2",
              "Tutte (1960), Coxeter (1983)", graphs.coxeter),
    BaseGraph("tutte_coxeter", "Tutte-Coxeter", 30, 3, 4, 8, "3,2,2,2;1,1,1,3",
              "Tutte (1947), Coxeter (1958)", graphs.tutte_coxeter),
    BaseGraph("foster", "Foster", 90, 3, 8, 10, "3,2,2,2,2,1,1,1;1,1,1,1,2,2,2,3",
              "Foster (1932); LCF code; " + BIGGS_ET_AL, _foster),
    BaseGraph("biggs_smith", "Biggs-Smith", 102, 3, 7, 9, "3,2,2,2,1,1,1;1,1,1,1,1,1,3",
              "Biggs and Smith (1971)", graphs.biggs_smith),
    BaseGraph("tutte_12_cage", "Tutte 12-cage", 126, 3, 6, 12, "3,2,2,2,2,2;1,1,1,1,1,3",
              "Benson (1966); LCF code; " + BIGGS_ET_AL, _tutte_12_cage),
    BaseGraph("mobius_kantor", "Möbius-Kantor", 16, 3, 4, 6, None,
              "Kantor (1882), Coxeter (1950); GP(8,3), " + WATKINS,
              partial(graphs.generalized_petersen, 8, 3)),
    BaseGraph("wagner", "Wagner", 8, 3, 2, 4, None,
              "Wagner (1937), the Möbius ladder C(8; 1, 4)",
              partial(graphs.cayley, (8,), ((1,), (4,)))),
    BaseGraph("twisted_3_cube", "Twisted 3-cube", 8, 3, 2, 4, None,
              "Hilbers, Koopman and van de Snepscheut (1987), Esfahanian, Ni and Sagan (1991)",
              graphs.twisted_3_cube),
)

_OTHER_VALENCIES = (
    BaseGraph("diamond", "Diamond", 8, 2, 3, None, None,
              "directed circulant x -> x + 1, x + 3 mod 8",
              partial(graphs.cayley, (8,), ((1,), (3,))), directed=True),
    BaseGraph("icosahedron", "Icosahedron", 12, 5, 3, 3, "5,2,1;1,2,5",
              "Platonic solid", graphs.icosahedron),
    BaseGraph("k66_minus_matching", "K6,6 - 6K2", 12, 5, 3, 4, "5,4,1;1,4,5",
              "complete bipartite graph minus a perfect matching", partial(graphs.crown, 6)),
    BaseGraph("clebsch", "Clebsch", 16, 5, 2, 4, "5,4;1,2",
              "Clebsch (1868), Seidel (1968); the folded 5-cube", partial(graphs.folded_cube, 5)),
    BaseGraph("shrikhande", "Shrikhande", 16, 6, 2, 3, "6,3;1,2",
              "Shrikhande (1959); differences (1,0), (0,1), (1,1) and negatives in Z4 x Z4",
              partial(graphs.cayley, (4, 4), ((1, 0), (0, 1), (1, 1)))),
    BaseGraph("mckay_miller_siran_4", "MMS(4)", 32, 6, 2, 4, None,
              "McKay, Miller and Siran (1998), Siagiova (2001)", geometries.mckay_miller_siran_4),
    BaseGraph("brown_7", "Brown(7)", 57, 8, 2, 3, None,
              "Brown (1966), absolute points joined", partial(geometries.orthogonal_points, 7)),
    BaseGraph("hoffman_singleton", "Hoffman-Singleton", 50, 7, 2, 5, "7,6;1,1",
              "Hoffman and Singleton (1960), Robertson (1969)", graphs.hoffman_singleton),
)
# fmt: on

CATALOGUE: tuple[BaseGraph, ...] = tuple(
    sorted(_VALENCY_4 + _VALENCY_3 + _OTHER_VALENCIES, key=lambda graph: graph.name)
)
