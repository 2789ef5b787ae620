"""Values in a notebook: what can be shown is, escaped and short, and tables are data frames."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest
from folders import EXAMPLES

import ocs_codesign as oc
from ocs_codesign.circuits.legs.options import recipe_options
from ocs_codesign.circuits.legs.trace import Job
from ocs_codesign.core.collective import WITHOUT_PARAMETERS, Collective
from ocs_codesign.core.networks.builders import direct
from ocs_codesign.core.shown import Shown, Tabular
from ocs_codesign.fabric.selection.steps import AllowedChanges, Workload
from ocs_codesign.faces.cli.workers import Here
from ocs_codesign.faces.data_frames import FRAMES, frame_of
from ocs_codesign.faces.notebook import SECTIONS, html_of
from ocs_codesign.jobs.issue import run
from ocs_codesign.schedules.compare.comparison import compare
from ocs_codesign.schedules.compare.contest import Contest


def selection_of(fabric):
    options = recipe_options([oc.parse("Torus((8, 8))")], WITHOUT_PARAMETERS)
    parts = (Job("allreduce", 2**20, name="gradients"),)
    return oc.select(fabric, Workload("mix", parts, 1, AllowedChanges.NONE), options)


@pytest.fixture(scope="module")
def values():
    """A value of every type that is shown."""
    recipe = oc.parse("Torus((2, 4))")
    topology = recipe.topology()
    schedule = oc.bfb(topology)
    network = direct(topology, 1, 1000)
    fabric = oc.load_fabric(EXAMPLES / "fabric64.yaml")
    routes = oc.core.direct_routes(topology, network)
    simulated = oc.simulate_transfers(
        oc.schedules.transfers_of_schedule(schedule, routes, 2**20),
        oc.schedules.TimingRules(unit_Bps=10**9),
    )
    contest = Contest("torus", network, Collective("allgather"), (2**20,), Fraction(10**9), recipe)
    sends = np.arange(schedule.num_sends)
    return [
        *(topology, schedule, network, fabric, simulated, selection_of(fabric)),
        compare([contest], Here(), 1)[0],
        oc.Timed(schedule, sends, sends + 1, Fraction(1, 10**9)),
        oc.deploy(fabric, [oc.fabric.NamedRecipe("torus", oc.parse("Torus((8, 8))"))]),
        oc.measure(recipe),
        oc.frontier(8, 2),
        run(oc.load_job(EXAMPLES / "layers.yaml").graph),
    ]


class Balance(HTMLParser):
    """Tags that are open."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, _):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def types_of(base):
    return {each.__name__ for each in base.__subclasses__()}


def test_every_type_that_says_so_is_shown_and_tabular_ones_are_frames(values):
    assert {type(value).__name__ for value in values} == set(SECTIONS)
    assert types_of(Shown) - {"Tabular"} | types_of(Tabular) == set(SECTIONS)
    assert types_of(Tabular) == set(FRAMES)


def test_html_is_balanced_and_says_something(values):
    for value in values:
        html = value._repr_html_()
        parser = Balance()
        parser.feed(html)
        assert parser.open == []
        assert "<t" in html, type(value).__name__


def test_reprs_are_one_short_line(values):
    for value in values:
        text = repr(value)
        assert text.startswith(f"{type(value).__name__}(")
        assert "\n" not in text
        assert len(text) < 200


def test_names_are_escaped():
    design = replace(oc.measure("UniRing(1, 3)"), recipes=(), name="<script>&")
    assert "<script>" not in html_of(design)
    assert "&lt;script&gt;&amp;" in html_of(design)


def test_a_graph_that_is_not_connected_is_shown():
    assert "not strongly connected" in html_of(oc.Topology(3, [0], [1]))


def test_frames_have_rows_of_one_length_and_named_columns(values):
    for value in values:
        if isinstance(value, Tabular):
            frame = value.to_dataframe()
            assert len(frame) > 0
            assert len(set(frame.columns)) == len(frame.columns)


def test_a_schedule_comes_back_from_its_frame(values):
    schedule = next(value for value in values if isinstance(value, oc.Schedule))
    frame = schedule.to_dataframe()
    columns = [frame[name].to_numpy() for name in ("item", "lo", "hi", "link", "step")]
    again = oc.Schedule(schedule.topology, schedule.collective, schedule.num_chunks, *columns)
    assert again == schedule
    assert (frame["tail"] == schedule.topology.tail[schedule.link]).all()


def test_a_frontier_names_no_option_of_the_command_line(values):
    frontier = next(value for value in values if isinstance(value, oc.Frontier))
    assert frontier.origin is not None
    text = frontier._repr_html_().partition("</style>")[2]
    assert "fresh=True" in text
    assert "--" not in text
    assert "None" not in text


def test_a_frontier_stays_exact(values):
    frontier = next(value for value in values if isinstance(value, oc.Frontier))
    frame = frontier.to_dataframe()
    best = frame[frame["set"] == "frontier"]
    assert best["t_b"].tolist() == [design.cost.t_b for design in frontier.candidates]
    assert [oc.parse(text) for text in best["recipe"]] == [
        design.recipe for design in frontier.candidates
    ]
    assert {"baseline", "published", "frontier"} <= set(frame["set"])


def test_times_of_a_simulation_are_its_own(values):
    simulated = next(value for value in values if isinstance(value, oc.schedules.Simulated))
    frame = simulated.to_dataframe()
    assert frame["end_s"].max() == pytest.approx(float(simulated.total_s))
    assert (frame["start_s"] <= frame["end_s"]).all()
    assert (frame[["tail", "head"]] >= 0).all(axis=None)


def test_what_is_no_table_is_refused():
    with pytest.raises(TypeError, match="int is no table"):
        frame_of(3)
    with pytest.raises(TypeError, match="nothing is known of int"):
        html_of(3)
