"""The pictures of a report show what the tables of its bundle say, read back from their shapes."""

from __future__ import annotations

import re
from collections import Counter
from math import cos, dist, pi, sin

import numpy as np
import pytest
from bundle_samples import (
    named,
    rotor_fabric,
    rows,
    small_deployment,
    small_fabric,
    stages_fabric,
    written,
)
from embed_samples import fabric
from hypothesis import given, settings
from hypothesis import strategies as st

from ocs_codesign.fabric.bundle.verify import check_bundle
from ocs_codesign.fabric.deployments.day_two import repaired
from ocs_codesign.fabric.deployments.deploy import Failures, deploy
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.wiring import Port
from ocs_codesign.faces.web.report.charts import GRID_CELLS, WIDTH, binned

NUMBER = r"-?\d+(?:\.\d)?"
KINDS = {"used": "used", "spare": "spare", "failed": "failed", "free": "free"}


def section(directory, name):
    page = (directory / "report.html").read_text(encoding="utf-8")
    return re.search(rf'<section id="{name}">(.*?)</section>', page, re.DOTALL)[1]


def figures(directory, name, configuration=None):
    """The figures of a section, or of a configuration in it."""
    text = section(directory, name)
    if configuration is not None:
        parts = re.split(r"<h3>([^<]+)</h3>", text)[1:]
        by_name = {name.split(",")[0]: part for name, part in zip(*[iter(parts)] * 2, strict=True)}
        text = by_name[configuration]
    return re.findall(r"<figure>.*?</figure>", text, re.DOTALL)


def lines(figure, kind="lines"):
    """Paths of a class: their text."""
    return "".join(re.findall(rf'<path class="{kind}[^"]*" d="([^"]*)"', figure))


def links_drawn(figure, nodes):
    """Pairs of nodes that a circle joins: by arrow one way, without arrow both, loops too."""
    middle, away = WIDTH / 2, WIDTH / 2 - 20
    places = [
        (middle + away * cos(2 * pi * v / nodes - pi / 2),
         middle + away * sin(2 * pi * v / nodes - pi / 2))
        for v in range(nodes)
    ]  # fmt: skip

    def node(x, y):
        return min(range(nodes), key=lambda v: dist(places[v], (float(x), float(y))))

    curve = rf"M({NUMBER}) ({NUMBER})Q{NUMBER} {NUMBER} ({NUMBER}) ({NUMBER})(M\S+ \S+L)?"
    found = Counter()
    for x, y, there, below, arrow in re.findall(curve, lines(figure)):
        tail, head = node(x, y), node(there, below)
        found[tail, head] += 1
        if not arrow:
            found[head, tail] += 1
    for x, y in re.findall(rf"M({NUMBER}) ({NUMBER})a5 5", lines(figure)):
        at = node(float(x) + 5, y)
        found[at, at] += 1
    return found


def links_told(directory, name, plane=None):
    table = rows(directory / "links" / f"{name}.csv")
    return Counter(
        (int(row["from_rank"]), int(row["to_rank"]))
        for row in table
        if plane in (None, int(row["plane"]))
    )


MODELS = [PortModel.SIMPLEX, PortModel.TWO_SIDED, PortModel.MATCHING]


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: model.value)
def bundle(request, tmp_path_factory):
    return written(small_deployment(request.param), tmp_path_factory.mktemp("bundle") / "out")


@pytest.mark.parametrize("name", ["ring", "cube"])
def test_circles_have_the_links_of_every_plane(bundle, name):
    whole, *planes = figures(bundle, "topologies", name)
    numbers = sorted({int(row["plane"]) for row in rows(bundle / "links" / f"{name}.csv")})
    assert len(planes) == (len(numbers) if len(numbers) > 1 else 0)
    drawn = Counter() if planes else links_drawn(whole, 8)
    for number, figure in zip(numbers if planes else (), planes, strict=True):
        assert f"Plane {number}: {links_told(bundle, name, number).total()} links." in figure
        assert set(links_drawn(figure, 8)) == set(links_told(bundle, name, number))
        drawn |= links_drawn(figure, 8)
    assert set(links_drawn(whole, 8)) == set(drawn) == set(links_told(bundle, name))


def test_loops_and_links_one_way_are_drawn(tmp_path):
    recipes = named(("kautz", "GeneralizedKautz(2, 7)"), ("de_bruijn", "DeBruijn(2, 3)"))
    out = written(deploy(small_fabric(), recipes[:1]), tmp_path / "out")
    figure, *_ = figures(out, "topologies", "kautz")
    assert links_drawn(figure, 7) == links_told(out, "kautz")
    out = written(deploy(small_fabric(), recipes[1:]), tmp_path / "other")
    figure, *_ = figures(out, "topologies", "de_bruijn")
    assert links_drawn(figure, 8) == links_told(out, "de_bruijn")
    assert {(0, 0), (7, 7)} <= set(links_drawn(figure, 8))


@pytest.mark.parametrize("name", ["ring", "cube"])
def test_switches_have_their_cross_connects(bundle, name):
    ports = 12
    step = (WIDTH - 24) / ports
    for figure in figures(bundle, "switches", name):
        switch = re.search(r"<span>([^:<]+):", figure)[1]
        drawn = set()
        for ends in re.findall(rf"M({NUMBER}) {NUMBER}(?:L|Q{NUMBER} {NUMBER} )({NUMBER}) ",
                               lines(figure, "lines link")):  # fmt: skip
            drawn.add(tuple(1 + int((float(x) - 22) / step) for x in ends))
        table = rows(bundle / "cross_connects" / name / f"{switch}.csv")
        assert drawn == {
            (int(row["a_side"].rstrip("A")), int(row["b_side"].rstrip("B"))) for row in table
        }
        assert f"{len(table)} cross-connects" in figure


def boxes(figure, kind):
    return len(re.findall(r"M[^M]*z", lines(figure, kind)))


def check_port_states(directory, name):
    told = {}
    for row in rows(directory / "ports.csv"):
        counts = told.setdefault(row["switch"], Counter())
        counts.update({kind: int(row[kind]) for kind in KINDS})
    shown = figures(directory, "switches", name)
    for figure in shown:
        switch = re.search(r"<span>([^:<]+):", figure)[1]
        assert {kind: boxes(figure, kind) for kind in KINDS} == told[switch]
    return len(shown), told


def test_switches_with_states_have_their_ports(tmp_path):
    deployment = deploy(rotor_fabric(), named(("c", "DirectedCirculant(8, (1, 2, 3, 5))")))
    out = written(deployment, tmp_path / "out")
    assert check_port_states(out, "c")[0] == 4
    assert len(figures(out, "topologies", "c")) == 5


def test_ports_are_what_the_table_says(bundle):
    check_port_states(bundle, "ring")


def test_failures_and_spares_are_seen(tmp_path):
    before = deploy(small_fabric(), named(("ring", "BiRing(2, 8)")))
    lost = Failures(("h2",), (Port("p0s0", "A", 1),))
    out = written(repaired(before, lost)[0], tmp_path / "out")
    assert check_bundle(out).ok
    _, told = check_port_states(out, "ring")
    assert told["p0s0"]["failed"] == 1
    hosts, ports = figures(out, "state")
    counts = {kind: boxes(hosts, kind) for kind in KINDS}
    assert counts == {"used": 8, "spare": 0, "failed": 1, "free": 1}
    assert lines(hosts, "cross").count("M") == 2
    assert "8 with a rank, 1 failed, 1 free" in hosts
    assert "1 failed" in ports
    assert '<span class="key failed">failed</span>' in ports


def test_spare_hosts_and_a_failed_switch_are_seen(tmp_path):
    before = deploy(small_fabric(), named(("ring", "BiRing(2, 8)")))
    out = written(before, tmp_path / "before")
    assert boxes(figures(out, "state")[0], "spare") == 1
    after = written(repaired(before, Failures(switches=("p0s0",)))[0], tmp_path / "after")
    shown, told = check_port_states(after, "ring")
    assert shown == 3  # two that are in use, and the one that has failed
    assert told["p0s0"]["failed"] == 24


def test_many_switches_are_one_picture(tmp_path):
    deployment = deploy(stages_fabric(), named(("a", "Circulant(8, (1, 2))")))
    out = written(deployment, tmp_path / "out")
    (figure,) = figures(out, "switches", "a")
    switches = len(deployment.fabric.switches)
    assert boxes(figure, "free") == switches > 16
    joined = {int(number) for number in deployment.configurations[0].configuration.switch}
    assert boxes(figure, "used") == len(joined) < switches
    assert boxes(figure, "failed") == 0


def cells(figure, shape):
    """The shade of every cell of a matrix, 0 where there is none."""
    found = np.zeros(shape, dtype=int)
    shades = re.findall(r'<path class="cells" d="([^"]*)"[^>]*fill-opacity="([\d.]+)"', figure)
    for text, opacity in shades:
        for x, y, wide in re.findall(r"M(\d+) (\d+)h(\d+)v1h", text):
            found[int(y), int(x) : int(x) + int(wide)] = round(100 * float(opacity))
    return found


def test_a_large_fabric_is_a_matrix(tmp_path):
    recipe = "GeneralizedKautz(4, 300)"
    deployment = deploy(
        fabric(300, [[300]] * 4), named(("large", recipe)), ("allgather",), prefer="any"
    )
    out = written(deployment, tmp_path / "out")
    assert (out / "report.html").stat().st_size < 150_000
    whole, *planes = figures(out, "topologies", "large")
    assert len(planes) == 4
    assert "<circle" not in section(out, "topologies")
    for plane, figure in enumerate([whole, *planes], -1):
        counts = np.zeros((GRID_CELLS, GRID_CELLS), dtype=int)
        for (tail, head), number in links_told(out, "large", plane if plane >= 0 else None).items():
            counts[tail * GRID_CELLS // 300, head * GRID_CELLS // 300] += number
        drawn = cells(figure, counts.shape)
        assert ((drawn > 0) == (counts > 0)).all()
        order = np.argsort(counts.ravel(), kind="stable")
        assert (np.diff(drawn.ravel()[order]) >= 0).all()
        assert drawn.ravel()[order[-1]] == 100
    switch = figures(out, "switches", "large")[0]
    table = rows(out / "cross_connects" / "large" / "p0s0.csv")
    assert (cells(switch, (GRID_CELLS, GRID_CELLS)) > 0).sum() == len({
        tuple((int(row[side][:-1]) - 1) * GRID_CELLS // 300 for side in ("a_side", "b_side"))
        for row in table
    })  # fmt: skip


@settings(max_examples=20)
@given(st.integers(1, 130), st.integers(1, 130), st.data())
def test_cells_hold_all_pairs(height, width, data):
    pair = st.tuples(st.integers(0, height - 1), st.integers(0, width - 1))
    pairs = data.draw(st.lists(pair, max_size=20))
    row, column = zip(*pairs, strict=True) if pairs else ((), ())
    counts = binned(row, column, (height, width))
    assert counts.shape == (min(height, GRID_CELLS), min(width, GRID_CELLS))
    assert counts.sum() == len(pairs)
    for at, there in pairs:
        assert counts[at * counts.shape[0] // height, there * counts.shape[1] // width] > 0


def test_loads_are_those_of_the_schedules(bundle):
    deployment = small_deployment()
    texts = section(bundle, "loads")
    for one in deployment.configurations:
        for bounded in one.designs:
            cost, loads = bounded.design.cost, bounded.design.loads
            assert len(loads) <= 16
            label = f"{one.name}, {bounded.collective.name}: {cost.steps} steps, t_b {cost.t_b}"
            assert label in texts
            assert f"{label}: {', '.join(map(str, loads))} shards" in texts


def test_many_steps_are_stairs(tmp_path):
    deployment = deploy(fabric(80, [[80]]), named(("long", "UniRing(1, 80)")), ("allgather",))
    out = written(deployment, tmp_path / "out")
    (figure,) = figures(out, "loads")
    heights = re.findall(rf"V({NUMBER})H", lines(figure, "stroked"))
    assert len(heights) == 79
    assert len(set(heights)) == 1
    assert not lines(figure, "bar")
    assert len(re.findall(r'text-anchor="middle"', figure)) < 20


def test_margins_are_those_of_the_links(bundle):
    (figure,) = figures(bundle, "losses")
    margins = Counter(
        row["margin_db"]
        for name in ("ring", "cube")
        for row in rows(bundle / "links" / f"{name}.csv")
    )
    told = ", ".join(f"{count} with {margin} dB" for margin, count in sorted(margins.items()))
    assert f"by their margin to the loss budget: {told}" in figure
    assert boxes(figure, "bar") == len(margins)
