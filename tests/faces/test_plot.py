"""Figures: everything in the picture, labels that do not collide, the same bytes every time."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from fake_frontier import FakeFrontier, candidate
from matplotlib.text import Annotation

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.cost import CostModel
from ocs_codesign.faces.pictures import SUFFIXES, frontier_figure, save_figure
from ocs_codesign.faces.pictures.drawing import shortened

MODEL = CostModel(10e-6, 12.5e9)
NAMES = (
    "Line(Power(DirectedCirculant(8, (1, 3)), 2), 2)",
    "Product(DirectedCirculant(64, (1, 31, 39, 57)), UniRing(2, 4))",
    "GeneralizedKautz(4, 1024)",
)


def staircase(length: int, dominated: int = 0) -> FakeFrontier:
    least = Fraction(1023, 1024)
    front = [
        candidate(NAMES[i % 3], 5 + i, least + Fraction(1, 3 * (i * i + 1)) * (i < length - 1))
        for i in range(length)
    ]
    rest = [
        candidate(NAMES[i % 3], 5 + (37 * i) % 1000, least + Fraction(1 + i % 17, 9))
        for i in range(dominated)
    ]
    return FakeFrontier(1024, 4, Collective.ALLGATHER, tuple(front), tuple(rest))


def annotations(figure) -> list[Annotation]:
    """Those of the axes and of a close-up in them."""
    (axes,) = figure.axes
    texts = (text for each in (axes, *axes.child_axes) for text in each.texts)
    return [text for text in texts if isinstance(text, Annotation)]


@pytest.mark.parametrize("dominated", [0, 60])
@pytest.mark.parametrize("length", [1, 2, 3, 12])
def test_labels_are_all_there_inside_and_apart(length, dominated):
    frontier = staircase(length, dominated)
    figure = frontier_figure(frontier)
    figure.canvas.draw()
    labels = annotations(figure)
    texts = {text.get_text() for text in labels}
    assert len(labels) >= length
    assert {shortened(one.recipe.label()) for one in frontier.candidates} <= texts
    renderer = figure.canvas.get_renderer()
    boxes = [super(Annotation, text).get_window_extent(renderer) for text in labels]
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    for text, box in zip(labels, boxes, strict=True):
        inside = text.axes.get_window_extent()
        assert inside.x0 <= box.x0
        assert box.x1 <= inside.x1
        assert inside.y0 - 3 <= box.y0
        assert box.y1 <= inside.y1 + 1


def test_the_legend_says_what_is_in_the_picture():
    figure = frontier_figure(staircase(3, 60), MODEL, 2**20)
    texts = " | ".join(text.get_text() for text in figure.axes[0].get_legend().get_texts())
    assert "fewest steps (Moore): 5" in texts
    assert "1023/1024" in texts
    assert "frontier: 3 candidates" in texts
    assert "more outside the picture" in texts
    assert "best for 1 MiB (α = 10 us, B = 100 Gbps)" in texts
    assert "fat tree (bound): 1 step, 0.999 (beyond)" in texts
    assert figure.axes[0].get_title() == "1024 nodes of degree 4: allgather frontier"


def test_baselines_are_where_they_are_or_on_the_edge():
    torus = candidate("Torus((32, 32))", 7, Fraction(1023, 1024))
    frontier = FakeFrontier(1024, 4, Collective.ALLGATHER, staircase(3).candidates, (torus,))
    figure = frontier_figure(frontier)
    (axes,), drawn = figure.axes, {}
    for line in axes.lines:
        drawn[str(line.get_label()).partition(":")[0]] = line
    x, y = drawn["Torus 32×32"].get_data()
    assert (x[0], y[0]) == (7, pytest.approx(1023 / 1024))
    assert drawn["Torus 32×32"].get_marker() == "D"
    assert drawn["fat tree (bound)"].get_marker() == "<"
    assert drawn["fat tree (bound)"].get_xdata()[0] == axes.get_xlim()[0]


def test_steps_are_logarithmic_only_over_a_wide_range():
    assert frontier_figure(staircase(3)).axes[0].get_xscale() == "linear"
    assert frontier_figure(staircase(3, 60)).axes[0].get_xscale() == "log"


def test_every_point_of_the_frontier_is_in_view():
    frontier = staircase(12, 60)
    axes = frontier_figure(frontier).axes[0]
    for one in frontier.candidates:
        assert axes.get_xlim()[0] < one.cost.steps < axes.get_xlim()[1]
        assert axes.get_ylim()[0] < float(one.cost.t_b) < axes.get_ylim()[1]


def test_long_labels_are_cut():
    factors = ", ".join(["UniRing(1, 2)"] * 10)
    one = candidate(f"Product({factors})", 10, Fraction(1023, 1024))
    figure = frontier_figure(FakeFrontier(1024, 10, Collective.ALLGATHER, (one,), ()))
    assert annotations(figure)[0].get_text().endswith("…")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_saved_bytes_are_the_same_every_time(tmp_path, suffix):
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        save_figure(frontier_figure(staircase(3, 20), MODEL, 2**20), path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert first.startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix])


@pytest.mark.parametrize("name", ["x.gif", "x", "x.PNGG", ".png"])
def test_unknown_suffixes_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"\.png, \.svg or \.pdf"):
        save_figure(frontier_figure(staircase(1)), tmp_path / name)
    assert not list(tmp_path.iterdir())


def crowded(high: int = 0) -> FakeFrontier:
    """Two candidates, and published designs close above them; some ``high`` up in the corner."""
    least = Fraction(1023, 1024)
    front = (candidate(NAMES[0], 5, least + Fraction(1, 12)), candidate(NAMES[2], 6, least))
    known = [
        candidate(f"Circulant({n}, (1, 2))", 6 + 3 * n, least + Fraction(1, 100 + n))
        for n in range(5, 12)
    ]
    top = candidate("Circulant(4, (1,))", 5, least + Fraction(1, 3))
    corner = [candidate(NAMES[2], 30, least + Fraction(1, 3))] * high
    return FakeFrontier(1024, 4, Collective.ALLGATHER, front, (*known, top, *corner))


def test_a_crowd_is_shown_in_a_close_up():
    figure = frontier_figure(crowded())
    (axes,) = figure.axes
    (close,) = axes.child_axes
    figure.canvas.draw()
    inside = [text.get_text() for text in close.texts if isinstance(text, Annotation)]
    assert sum(text.startswith("C(") for text in inside) == 7
    low, high = close.get_ylim()
    assert high - low < 0.1 * (axes.get_ylim()[1] - axes.get_ylim()[0])
    ends = [close.get_window_extent(), axes.get_window_extent()]
    assert ends[1].x0 < ends[0].x0 < ends[0].x1 < ends[1].x1
    labels = [text for text in axes.texts if isinstance(text, Annotation)]
    boxes = [super(Annotation, text).get_window_extent() for text in labels]
    assert not any(box.overlaps(close.get_tightbbox()) for box in boxes)
    assert frontier_figure(crowded(high=1)).axes[0].child_axes == []
    assert frontier_figure(staircase(2)).axes[0].child_axes == []


def test_the_published_staircase_is_drawn_where_it_is_another():
    def legend(frontier: FakeFrontier) -> str:
        axes = frontier_figure(frontier).axes[0]
        return " | ".join(text.get_text() for text in axes.get_legend().get_texts())

    assert "published frontier: 8 of them" in legend(crowded())
    assert "published" not in legend(staircase(3))


def test_labels_have_no_box_that_looks_like_a_missing_glyph():
    figure = frontier_figure(staircase(3))
    assert {"□" in text.get_text() for text in annotations(figure)} == {False}
