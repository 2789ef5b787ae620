"""What is given where a topology is wanted: every public function takes every kind of it."""

from __future__ import annotations

import inspect
import pathlib
import re
from fractions import Fraction

import networkx
import numpy as np
import pytest
from embed_samples import fabric

import ocs_codesign as oc
from ocs_codesign.core.compute.factorisation import plane_heads
from ocs_codesign.core.lp import Options
from ocs_codesign.core.networks.builders import as_network
from ocs_codesign.fabric.clusters import Card, Inner
from ocs_codesign.fabric.light import topology_of
from ocs_codesign.graphs.formats.node_link import to_networkx
from ocs_codesign.graphs.text import as_recipe, as_recipe_or_topology
from ocs_codesign.jobs.prices import Level, Machine

TEXT = "BiRing(2, 5)"
RECIPE = oc.parse(TEXT)
GRAPH = RECIPE.topology()
ENDS = np.stack([GRAPH.tail, GRAPH.head], axis=1)
GIVEN = {
    "recipe": RECIPE,
    "text": TEXT,
    "topology": GRAPH,
    "array": ENDS,
    "list": ENDS.tolist(),
    "rows": [tuple(row) for row in ENDS.tolist()],
    "MultiDiGraph": to_networkx(GRAPH),
    "DiGraph": networkx.DiGraph(ENDS.tolist()),
    "Graph": networkx.cycle_graph(5),
    "MultiGraph": networkx.MultiGraph(networkx.cycle_graph(5)),
    "named nodes": networkx.relabel_nodes(networkx.cycle_graph(5), "abcde".__getitem__),
    "network": oc.direct(GRAPH, 7),
}
"""The same ring of five nodes, as everything that it may be given as."""

RING = oc.graphs.DirectedCirculant(5, (1, 2)).topology()
HELD = plane_heads(GRAPH, oc.core.factorise(GRAPH))
NETWORK = oc.direct(GRAPH, 1)
GATHER = oc.Collective("allgather")
ALL = oc.bfb(GRAPH)
OPTIONS = Options()


def classic(name):
    from ocs_codesign.schedules.classic.registry import CLASSIC

    return CLASSIC[name].messages("allgather", 5)


def stacked(graph):
    """Every column of the BFB schedule again, on the given graph whose links are in any order."""
    same = oc.bfb(graph)
    columns = (same.item, same.lo, same.hi, same.link, same.step)
    return oc.Schedule(graph, GATHER, same.num_chunks, *columns)


def nodes_and_links(topology):
    return topology.num_nodes, sorted(zip(topology.tail, topology.head, strict=True))


def even(topology):
    return np.ones((topology.num_nodes,) * 2, dtype=int)


def two(graph):
    return [graph, RING]


TAKEN = {
    "as_topology": lambda graph: nodes_and_links(oc.core.as_topology(graph)),
    "topology_bound": oc.topology_bound,
    "predict": lambda graph: oc.predict(graph).cost,
    "measure": lambda graph: oc.measure(graph, "allreduce").cost,
    "late_arrivals": lambda graph: oc.schedules.late_arrivals(graph, 3, 50).loads(),
    "ArrivalSteps": lambda graph: oc.schedules.ArrivalSteps(
        graph, oc.core.as_topology(graph).distances()
    ).loads(),
    "measure_topology": lambda graph: oc.measure_topology(graph).cost,
    "build": lambda graph: oc.verify(oc.build(graph, "allreduce").schedule).cost,
    "build_topology": lambda graph: oc.schedules.build_topology(graph).cost,
    "Design.bound_on": lambda graph: oc.measure(TEXT).bound_on(graph),
    "CircuitProgram": lambda graph: nodes_and_links(
        oc.CircuitProgram(graph, np.arange(10), np.arange(10), [1] * 10, [2] * 10).topology
    ),
    "embed": lambda graph: nodes_and_links(
        topology_of(oc.embed(fabric(5, [[5]] * 2), graph).configuration)
    ),
    "free_rewiring": lambda graph: oc.fabric.free_rewiring(HELD, graph).num_changed,
    "minimum_rewiring": lambda graph: oc.fabric.minimum_rewiring(HELD, graph).fewest_changed,
    "factorise": lambda graph: sorted(oc.core.factorise(graph).tolist()),
    "boxes": lambda graph: (
        repr(oc.boxes(5, 2, 3, 4, outer=graph)),
        repr(oc.boxes(2, 5, 3, 4, inner=graph)),
    ),
    "damaged": lambda graph: oc.damaged(graph, as_network(graph).name(0)).num_links,
    "direct": lambda graph: sorted(oc.direct(graph, 3).tail.tolist()),
    "servers": lambda graph: (
        repr(oc.servers(5, oc.star(2, 9), graph)),
        repr(oc.servers(2, graph, oc.graphs.Complete(2), 1)),
        repr(oc.servers(5, oc.star(2, 9), [graph, TEXT])),
    ),
    "phased": lambda graph: oc.schedules.phased(graph, GATHER, [np.arange(len(ENDS))]).inv_rate,
    "phased_alltoall": lambda graph: oc.circuits.phased_alltoall(two(graph)).time,
    "build_sequence": lambda graph: oc.circuits.build_sequence(two(graph), steps_each=2).bound,
    "Routes": lambda graph: repr(
        oc.Routes(graph, oc.direct(graph, 1), np.arange(11), np.arange(10))
    ),
    "direct_routes": lambda graph: repr(oc.core.direct_routes(graph, oc.direct(graph, 1))),
    "shortest_routes": lambda graph: len(oc.core.shortest_routes(graph, NETWORK).link),
    "Schedule": lambda graph: oc.verify(stacked(graph)).cost,
    "Schedule.on_links_of": lambda graph: oc.verify(ALL.on_links_of(graph)).cost,
    "disjoint_path_table": lambda graph: oc.schedules.disjoint_path_table(graph, 2).bound,
    "path_table": lambda graph: oc.schedules.path_table(graph).bound,
    "up_down_table": lambda graph: oc.schedules.up_down_table(graph, 2).bound,
    "alltoall_frontier": lambda graph: len(oc.schedules.alltoall_frontier(graph, 2)),
    "alltoall_schedule": lambda graph: oc.verify(oc.alltoall_schedule(graph)).cost,
    "stepped_plan": lambda graph: oc.schedules.stepped_plan(graph).num_steps,
    "throughput": lambda graph: oc.throughput(graph).time,
    "bfb": lambda graph: oc.verify(oc.bfb(graph)).cost,
    "bfb_loads": oc.schedules.bfb_loads,
    "place": lambda graph: oc.schedules.place(classic("ring"), graph).cut_through,
    "messages_on": lambda graph: oc.schedules.messages_on(graph, "ring", GATHER, {})[0].num_steps,
    "exact_answers": lambda graph: len(
        list(oc.schedules.exact_answers(graph, 2, 1, options=OPTIONS))
    ),
    "exact_frontier": lambda graph: len(oc.schedules.exact_frontier(graph, 2, 1, options=OPTIONS)),
    "exact_schedule": lambda graph: oc.exact_schedule(graph, 2, 1, options=OPTIONS).num_steps,
    "fractional_bound": lambda graph: oc.schedules.fractional_bound(graph, 2, options=OPTIONS),
    "contenders": lambda graph: oc.contenders(oc.direct(graph, 1), GATHER, topology=graph).least,
    "Pipeline.schedule": lambda graph: (
        oc.verify(
            oc.schedules.Pipeline(oc.forests(oc.direct(graph, 1), GATHER), GATHER).schedule(
                1, graph
            )
        ).cost.t_b
    ),
    "optimum": lambda graph: oc.optimum(graph, GATHER).inv_rate,
    "forests": lambda graph: oc.forests(graph, GATHER)[0].inv_rate,
    "exchange_optimum": lambda graph: oc.schedules.exchange_optimum(graph).value,
    "exchange_paths": lambda graph: oc.schedules.exchange_paths(graph).num_paths,
    "held_plans": lambda graph: (
        oc.schedules.held_plans(graph, [even(oc.core.as_topology(graph))], 1).total
    ),
    "held_experts": lambda graph: (
        oc.schedules.held_experts(
            graph, [np.ones(ALL.topology.num_nodes, dtype=int)], lambda *_: even(ALL.topology), 1
        ).total
    ),
    "allreduce_optimum": oc.schedules.allreduce_optimum,
    "allreduce_pipelines": lambda graph: oc.schedules.allreduce_pipelines(graph)[1],
    "synthesis": lambda graph: oc.synthesis(graph, GATHER).ticks,
}
"""A result of every function that takes a topology, alike for all ways to give the same one."""

CLUSTER = oc.fabric.Cluster(
    "pod",
    tuple("abcde"),
    Inner("switch", 1, Fraction(9 * 10**9)),
    (Card(2, Fraction(10**9), (0,)),),
)


def job(recipe):
    draft = oc.jobs.JobDraft(1, [5])
    draft.collective("allreduce", (0,), 8, {}, num_ranks=5, between=(0, 4))
    machine = Machine((Level(5, oc.CostModel(0, 1)),))
    change = oc.Change(1)
    rings = [recipe, "Circulant(5, (2,))"]
    return oc.jobs.configured(draft.graph(), machine, rings, change).num_configurations


RECIPES_ONLY = {
    "NamedRecipe": (
        lambda recipe: oc.fabric.NamedRecipe("ring", recipe).recipe,
        "embed puts any graph",
    ),
    "Cluster.network": (lambda recipe: CLUSTER.network([recipe]).num_links, "servers joins"),
    "Cluster.of_cards": (lambda recipe: CLUSTER.of_cards([recipe]), "servers joins"),
    "score_cluster": (
        lambda recipe: oc.fabric.score_cluster(CLUSTER, GATHER, [recipe]).best.steps,
        "servers joins",
    ),
    "configured": (job, "is named by its recipe"),
}
"""What takes recipes and their texts, as their names leave the function; and what else to do."""

EXPANSIONS = {"Degree", "Line", "Power", "Product", "Bidirected", "Transpose"}
VALUES = {"Design", "PathTable", "Frontier", "NamedRecipe", "extended", "deploy"}
"""Values that hold what was made for them, and what takes named recipes."""


def callables():
    """The public functions, and methods of public classes, by name."""
    parts = [getattr(oc, part) for part in set(dir(oc)) - set(oc.__all__)]
    offered = {name: getattr(part, name) for part in parts for name in getattr(part, "__all__", [])}
    for name, value in offered.items():
        yield name, value
        if inspect.isclass(value):
            members = inspect.getmembers(value, inspect.isfunction)
            yield from (
                (f"{name}.{member}", method)
                for member, method in members
                if not member.startswith("_") and member in vars(value)
            )


def takers():
    """Those with a parameter that is annotated as a topology, a network or a recipe."""
    words = "Topology", "TopologyLike", "NetworkLike", "Recipe", "NamedRecipe"
    for name, value in callables():
        try:
            parameters = inspect.signature(value).parameters.values()
        except ValueError:
            continue
        told = " ".join(str(each.annotation) for each in parameters)
        for sign in "[]|,'().":
            told = told.replace(sign, " ")
        if not set(words).isdisjoint(told.split()):
            yield name


def test_every_public_function_that_takes_a_topology_is_called_here():
    known = set(TAKEN) | set(RECIPES_ONLY) | EXPANSIONS | VALUES
    assert known == set(takers()) | {"Design.bound_on"}


@pytest.mark.parametrize("name", sorted(TAKEN))
def test_the_same_graph_gives_the_same_answer_however_it_is_given(name):
    call = TAKEN[name]
    expected = call(GRAPH)
    for kind, graph in GIVEN.items():
        if kind == "network" and name in NETWORKS:
            continue  # a network has a width of its own there
        if kind in {"list", "rows"} and name == "servers":
            continue  # several networks, one a rail
        assert call(graph) == expected, kind


@pytest.mark.parametrize("name", sorted(RECIPES_ONLY))
def test_what_names_recipes_takes_texts_and_says_what_graphs_are_for(name):
    call, instead = RECIPES_ONLY[name]
    assert call(TEXT) == call(RECIPE)
    for kind, graph in GIVEN.items():
        if kind not in {"recipe", "text"}:
            with pytest.raises(ValueError, match=instead) as caught:
                call(graph)
            assert " is no recipe, which is a call such as Complete(4)" in str(caught.value)


@pytest.mark.parametrize("name", sorted(EXPANSIONS))
def test_expansions_say_what_they_expand(name):
    kind = getattr(oc.graphs, name)
    rest = (2,) if name in {"Degree", "Power"} else (RECIPE,) if name == "Product" else ()
    kind(RECIPE, *rest)
    for graph in (GRAPH, TEXT, networkx.cycle_graph(5), None):
        with pytest.raises(ValueError, match=rf"is not a recipe: {name} expands recipes, which "):
            kind(graph, *rest)


FORESTS = {"optimum", "forests", "allreduce_optimum", "allreduce_pipelines"}
EXCHANGES = {"exchange_optimum", "exchange_paths", "held_plans", "held_experts"}
NETWORKS = FORESTS | EXCHANGES | {"damaged", "servers", "place", "messages_on", "phased"}
"""What takes networks too, with switches."""


def lonely():
    graph = networkx.cycle_graph(5)
    graph.add_node("far")
    return graph


def slow():
    graph = networkx.cycle_graph(5)
    graph.edges[0, 1]["speed"] = "fast"
    return graph


BAD = {
    "no nodes": (networkx.Graph(), "there are no nodes"),
    "no links": (networkx.empty_graph(5), None),
    "isolated node": (lonely(), None),
    "same name twice": (
        networkx.DiGraph([(0, "0"), ("0", 0)]),
        "two nodes of the graph have the same name",
    ),
    "a name of two lines": (networkx.Graph([("a\nb", 1)]), r"'a\\nb' is not a node name"),
    "no name": (networkx.Graph([("", 1)]), "'' is not a node name"),
    "a speed that is none": (slow(), "'fast' is not a link speed"),
    "a file": ("fabric.edges", "'fabric.edges' is no recipe: is it a file"),
    "a path": ("/tmp/fabric", "'/tmp/fabric' is no recipe: is it a file"),
    "a path of another system": (r"C:\fabric", "is no recipe: is it a file"),
    "a Path": (pathlib.Path("fabric.edges"), "Path is no topology: it may be a recipe, its text"),
    "an empty text": ("", "a recipe is a text such as"),
    "an unknown name": ("Torrus((4, 4))", "unknown name 'Torrus' in a recipe: did you mean Torus"),
    "a name alone": ("Complete", "names must be called, as in Complete"),
    "code": ("__import__('os')", "unknown name '__import__' in a recipe"),
    "a class": (oc.graphs.Complete, "the class Complete is no topology"),
    "a module": (networkx, "a module is no topology"),
    "nothing": (None, "None is no topology: it may be a recipe"),
    "a dict": ({0: [1], 1: [0]}, "a dict is no topology"),
    "bytes": (TEXT.encode(), "a bytes is no topology"),
    "a matrix": (np.eye(5, dtype=int), "is no array of links"),
    "rows of three": ([(0, 1, 2)], "is no array of links"),
    "rows of unequal length": ([(0, 1), (1,)], "is no array of links"),
    "broken numbers": ([(0, 1.5)], "is no array of links"),
    "an empty list": ([], "is no array of links"),
    "a negative node": ([(0, -1)], "a link names node -1: nodes count from 0"),
    "a node far off": ([(0, 10**6)], "so few leave a node without any link"),
    "switches": (oc.star(5, 1), "switches are no nodes of a collective"),
    "a schedule": (ALL, "a Schedule is no topology"),
}
"""What is no topology, and what all say of it; None for graphs that some functions take.
"""


def sentence(call, bad):
    """What a function says of what it does not take; None if it takes it."""
    try:
        call(bad)
    except ValueError as error:
        text = str(error)
        assert text
        assert "\n" not in text.strip()
        return text
    return None


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_topology_gets_one_sentence(kind):
    bad, rule = BAD[kind]
    for name in sorted(set(TAKEN) - NETWORKS):
        told = sentence(TAKEN[name], bad)
        assert rule is None or (told is not None and re.search(rule, told)), (name, told)
    for name in sorted(NETWORKS):
        told = sentence(TAKEN[name], bad)
        assert rule is None or told is not None or kind == "switches", name


def test_functions_of_networks_take_their_texts_and_say_what_is_none():
    assert oc.optimum("star(5, 1)", GATHER).inv_rate == 4
    assert oc.damaged("star(5, 1)", "h0").num_links == 8
    assert as_network("star(5, 1)").num_hosts == as_network(TEXT).num_hosts == 5
    for bad, rule in (
        (7, "an int is no network: give one such as star"),
        ([(0,)], "no array of links"),
    ):
        with pytest.raises(ValueError, match=rule):
            as_network(bad)
    with pytest.raises(ValueError, match="several: across rails there is one"):
        oc.servers(5, oc.star(2, 9), [TEXT, TEXT], wiring="across")


def test_self_loops_are_ports_that_carry_nothing():
    graph = networkx.DiGraph([(0, 1), (1, 2), (2, 0), *((node, node) for node in range(3))])
    assert oc.core.as_topology(graph).has_self_loops()
    assert (
        oc.measure(graph).cost
        == oc.measure(RING_OF_THREE_TWICE).cost
        == (oc.Cost(2, Fraction(4, 3)))
    )


RING_OF_THREE_TWICE = [(0, 1), (1, 2), (2, 0), (0, 0), (1, 1), (2, 2)]


def test_a_graph_is_measured_where_a_recipe_is_predicted():
    assert oc.predict(GRAPH).known is oc.schedules.Known.MEASURED
    assert oc.predict(RECIPE).known is oc.schedules.Known.PREDICTED
    assert oc.build(GRAPH).recipes == oc.measure(GRAPH).recipes == ()
    assert oc.build(TEXT).recipes == (RECIPE,)


def test_schedulers_by_name_build_graphs_too():
    assert oc.build(GRAPH, "allgather", "bfb").cost == oc.build(TEXT).cost
    with pytest.raises(ValueError, match="expansion"):
        oc.build(GRAPH, "allgather", "expansion")
    with pytest.raises(ValueError, match="it must be one of bfb"):
        oc.build(GRAPH, "allgather", "fastest")


def test_measuring_a_graph_may_take_too_long():
    with pytest.raises(ValueError, match=r"measuring .* would take too long"):
        oc.measure(GRAPH, max_work=1)


def test_a_sequence_of_recipes_and_graphs_has_no_names():
    both = oc.circuits.build_sequence([TEXT, RING], steps_each=2)
    assert both.recipes == both.recipe_of_step == ()
    named = oc.circuits.build_sequence([TEXT, "DirectedCirculant(5, (1, 2))"], steps_each=2)
    assert named.recipes[0] == RECIPE


def test_a_recipe_or_a_graph():
    assert as_recipe_or_topology(TEXT) == as_recipe(RECIPE) == RECIPE
    assert nodes_and_links(as_recipe_or_topology(GIVEN["Graph"])) == nodes_and_links(GRAPH)
