"""Pictures in axes that are given: the same as in a figure of their own, and nothing beside."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from bundle_samples import small_deployment
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import ocs_codesign as oc
import ocs_codesign.plot
from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost, CostModel
from ocs_codesign.design import Design, Known
from ocs_codesign.question import Question
from ocs_codesign.search.pareto import Frontier
from ocs_codesign.workload.period import steady
from ocs_codesign.workload.policies import PolicyOutcome
from ocs_codesign.workload.prices import Level, Machine


@cache
def job():
    return steady(oc.LayerTimes([10] * 3, [20] * 3, [40, 20, 30]).graph())


def alltoall():
    recipes = [oc.parse(text) for text in ("Circulant(9, (1, 2))", "Torus((3, 3))")]
    designs = [replace(oc.measure(recipe), others=(oc.measure(recipe),)) for recipe in recipes]
    made = [
        Design(
            Collective.ALLTOALL,
            Cost(one.cost.steps, one.cost.t_b * (at + 2)),
            "lp",
            Known.MEASURED,
            one.recipes,
            others=(one,),
        )
        for at, one in enumerate(designs)
    ]
    criteria = ("allgather steps", "allgather t_b", "steps", "t_b")
    return Frontier(Question(9, 4), Collective.ALLTOALL, tuple(made), (), criteria)


def outcomes():
    return [PolicyOutcome(name, "", job(), job().period_s / 2) for name in ("slow", "also")]


@cache
def changing():
    draft = oc.JobDraft(1, [4])
    last = draft.collective("allreduce", (0,), 8, {}, num_ranks=4, between=(0, 3))
    draft.collective("allreduce", (0,), 24, {0: last}, num_ranks=2, between=(0, 2))
    machine = Machine((Level(4, CostModel(0, 1)),))
    rings = [oc.parse(f"DirectedCirculant(4, ({step},))") for step in (1, 2)]
    job = oc.configured(draft.graph(), machine, rings, oc.ReconfigurationCost(5))
    return oc.plan_iteration(job)


PICTURES = {
    "changes": lambda: (changing(), "two rings"),
    "frontier": lambda: (oc.frontier(12, 4), CostModel(1e-5, 1e10), 1e6),
    "job": lambda: (job().job_run,),
    "joint": lambda: (alltoall(),),
    "loads": lambda: (small_deployment(),),
    "margins": lambda: (small_deployment(),),
    "network": lambda: (oc.optimum(oc.mesh((2, 3), 1), Collective("allgather")), "mesh"),
    "policies": lambda: (outcomes(), job().period_s / 2),
    "ports": lambda: (small_deployment(),),
}
IN_PANELS = {
    *(
        "codesign",
        "comparison",
        "demand",
        "gaps",
        "link_job",
        "planes",
        "reconfigured",
        "selection",
    ),
    *("simulation", "tallest_tree", "trace", "tree"),
}
"""Pictures of several panels, or with a legend of the figure: they need a figure of their own."""


def functions():
    """All functions of the room, by name."""
    room = Path(ocs_codesign.plot.__file__).parent
    modules = [import_module(f"ocs_codesign.plot.{path.stem}") for path in room.glob("[a-z]*.py")]
    return {
        name: function
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
    }


FUNCTIONS = functions()


def words(axes):
    legend = axes.get_legend()
    return (
        axes.get_title(),
        axes.get_title(loc="left"),
        axes.get_xlabel(),
        [text.get_text() for text in axes.texts],
        [] if legend is None else [text.get_text() for text in legend.get_texts()],
        (len(axes.lines), len(axes.patches), len(axes.collections)),
    )


def test_every_picture_is_here():
    figures = {name.removesuffix("_figure") for name in FUNCTIONS if name.endswith("_figure")}
    assert figures - {"save"} == set(PICTURES) | IN_PANELS
    assert set(PICTURES).isdisjoint(IN_PANELS)


@pytest.mark.parametrize("has_canvas", [True, False])
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_in_the_axes_that_are_given(name, has_canvas):
    arguments = PICTURES[name]()
    draw, figure_of = FUNCTIONS[f"draw_{name}"], FUNCTIONS[f"{name}_figure"]
    assert inspect.signature(draw).parameters["ax"].default is None
    figure = Figure(figsize=(12, 5))
    if has_canvas:
        FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    assert draw(*arguments, ax=right) is right
    assert figure.axes == [left, right]
    assert not left.has_data()
    assert right.has_data()
    alone = figure_of(*arguments).axes[0]
    assert words(right)[:3] == words(alone)[:3]
    assert words(right)[4] == words(alone)[4]
    made = draw(*arguments)
    assert isinstance(made, Axes)
    assert words(made) == words(alone)
    figure.draw_without_rendering()
