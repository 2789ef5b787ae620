"""The explorer in a real browser, from disk: views, sliders, files, keys, access, what it asks for.

Needs Chromium of the system and the extra ``browser``; skipped where either is missing.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from browser_samples import PHONE, SIZE, launched, opened, violations
from explorer_samples import served, small_catalogue

from ocs_codesign.core.cost import CostModel
from ocs_codesign.fabric.files.example import example_text
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.web.site import payloads, write_site
from ocs_codesign.graphs.handle import handle
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.breadth_first.loads import bfb_loads
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.catalogue.store import Catalogue

COMPARED = "view=compare&n=16&a=4-any/16/{0}&b=4-any/16/{1}"


@pytest.fixture(scope="module")
def browser():
    with launched() as started:
        yield started


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("explorer")


@pytest.fixture(scope="module")
def entries(place):
    with Catalogue(small_catalogue(place)) as store:
        return store.entries(Question(16, 4))


@pytest.fixture(scope="module")
def site(place, entries):
    del entries
    with Catalogue(place / "mine.sqlite") as store:
        write_site(place / "site", payloads(store, "mine.sqlite", store.questions(), 256))
    return (place / "site" / "index.html").as_uri()


def both(entries):
    return COMPARED.format(*(handle(entry.recipe)[1:] for entry in entries[:2]))


def views(entries):
    first = handle(entries[0].recipe)[1:]
    return {
        "frontier": "n=16",
        "design": f"view=design&n=16&a=4-any/16/{first}&step=1",
        "compare": both(entries),
        "files": "view=files",
    }


@pytest.mark.parametrize("name", ["frontier", "design", "compare", "files"])
@pytest.mark.parametrize(("scheme", "viewport"), [("light", SIZE), ("dark", PHONE)])
def test_every_view_is_accessible_and_fits(browser, site, entries, name, scheme, viewport):
    look = {"color_scheme": scheme, "viewport": viewport}
    with opened(browser, site, views(entries)[name], **look) as page:
        assert page.get_attribute("main", "data-view") == name
        if name == "design":
            page.wait_for_selector(".exchange .matrix")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert violations(page) == []


def test_times_are_those_of_the_cost_model(browser, site, entries):
    with opened(browser, site, "n=16&alpha=5&gbps=800&bytes=65536") as page:
        for gbps, alpha, message in ((800, 5, 2**16), (1600, 10, 2**17)):
            model = CostModel(Fraction(alpha, 10**6), Fraction(gbps * 125 * 10**6))
            told = page.evaluate(
                """async () => {
                    const asked = await explorer.catalogue.question("4-any", 16);
                    const model = explorer.message.model();
                    return asked.designs.map((each) => [each.recipe,
                        explorer.message.time_s(each.costs.allgather, model)]);
                }"""
            )
            times = dict(told)
            for entry in entries:
                expected = float(entry.allgather.time_s(model, message))
                assert math.isclose(times[entry.recipe], expected, rel_tol=1e-12)
            best = min(times.values())
            shown = page.inner_text(".fastest")
            number, unit = shown.split()
            scale = {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
            assert math.isclose(float(number) * scale, best, rel_tol=1e-3)
            for slider in ("gbps", "alpha", "bytes"):
                page.focus(f"#slider-{slider}")
                page.keyboard.press("ArrowRight")
        assert "gbps=3200" in page.url
        assert page.get_attribute("#slider-bytes", "aria-valuetext") == "256 KiB"


GRAPHS = [
    "Torus((4, 4))",
    'Named("petersen")',
    "GeneralizedKautz(3, 11)",
    "UniRing(2, 5)",
    "Line(CompleteBipartite(2))",
    "DeBruijn(2, 3)",
    "Hypercube(3)",
]


def test_bfb_in_the_browser_is_bfb(browser, site):
    with opened(browser, site, "view=files") as page:
        for recipe in GRAPHS:
            check_bfb(page, parse(recipe).topology())


def check_bfb(page, topology):
    """What the page works out for a topology against the package, and its sends by themselves."""
    ends = [topology.tail.tolist(), topology.head.tolist()]
    loads, sends, hops = page.evaluate(
        """([n, tail, head]) => {
            const graph = explorer.graph.make(n, Int32Array.from(tail), Int32Array.from(head));
            return [explorer.bfb.loads(graph),
                Array.from({ length: n }, (_, root) => explorer.bfb.sends(graph, root)),
                explorer.bfb.distances(graph).map((row) => [...row])];
        }""",
        [topology.num_nodes, *ends],
    )
    assert tuple(Fraction(*each) for each in loads) == bfb_loads(topology)
    assert hops == topology.distances().tolist()
    carried: dict[tuple[int, int], float] = {}
    for root, of_root in enumerate(sends):
        into = dict.fromkeys(range(topology.num_nodes), 0.0)
        for send in of_root:
            tail, head = (end[send["link"]] for end in ends)
            assert hops[root][head] == send["step"] == hops[root][tail] + 1
            into[head] += send["share"]
            place = (send["link"], send["step"])
            carried[place] = carried.get(place, 0.0) + send["share"]
        into.pop(root)
        assert all(math.isclose(share, 1) for share in into.values())
    for (_, step), load in carried.items():
        assert load <= loads[step - 1][0] / loads[step - 1][1] + 1e-9


def test_a_schedule_is_played_by_keys_and_kept_in_the_address(browser, site, entries):
    first = handle(entries[0].recipe)[1:]
    steps = entries[0].allgather.steps
    with opened(browser, site, f"view=design&n=16&a=4-any/16/{first}") as page:
        assert page.inner_text(".told").startswith("Before the first step")
        start = page.evaluate("document.querySelector('canvas').toDataURL()")
        page.focus("[aria-label='Step forward']")
        page.keyboard.press("Enter")
        assert page.inner_text(".told").startswith(f"Step 1 of {steps}: 4 links carry")
        assert page.evaluate("document.querySelector('canvas').toDataURL()") != start
        page.fill("input[type=number]", "5")
        page.keyboard.press("Tab")
        assert "the shard of node 5" in page.inner_text(".told")
        page.select_option("select >> nth=0", "force")
        page.reload()
        page.wait_for_selector(".told")
        assert page.inner_text(".told").startswith("Step 1 of")
        assert "node 5" in page.get_attribute("canvas", "aria-label")
        page.click(".play")
        page.locator(".told", has_text=f"Step {steps} of").wait_for()


def test_loads_on_the_page_are_those_of_the_design(browser, site, entries):
    for entry in entries[:1]:
        view = f"view=design&n=16&a=4-any/16/{handle(entry.recipe)[1:]}"
        with opened(browser, site, view) as page:
            assert page.get_attribute(".loads", "data-t_b") == str(entry.allgather.t_b)
        with opened(browser, site, f"{view}&c=allreduce") as page:
            assert page.get_attribute(".loads", "data-t_b") == str(
                entry.allgather.t_b + entry.reduce_scatter.t_b
            )


def test_a_schedule_that_is_not_played_is_named(browser, tmp_path):
    question = Question(5, 6)
    with Catalogue() as store:
        write_site(tmp_path / "site", payloads(store, "one", [question], 8))
        entry = next(each for each in store.entries(question) if each.schedule == "expansion")
    address = (tmp_path / "site" / "index.html").as_uri()
    view = f"view=design&a=6-any/5/{handle(entry.recipe)[1:]}"
    played = sum(bfb_loads(parse(entry.recipe).topology())) * Fraction(6, 5)
    assert played != entry.allgather.t_b
    with opened(browser, address, view) as page:
        page.wait_for_selector(".loads")
        text = page.inner_text("main")
        assert f"BFB, with t_b {played}; the cost of the design, {entry.allgather.t_b}" in text
        assert "(expansion), which build makes" in text


def test_a_design_is_found_by_keys_and_the_browser_goes_back(browser, site, entries):
    with opened(browser, site, "n=16") as page:
        recipes = {entry.recipe for entry in entries}
        page.focus(".mark.front")
        page.keyboard.press("Enter")
        page.wait_for_selector("main[data-view=design] pre")
        assert page.inner_text("pre >> nth=0") in recipes
        page.go_back()
        page.wait_for_selector("main[data-view=frontier]")
        page.click("[aria-label='Fewer nodes']")
        page.wait_for_selector("h2:has-text('12 nodes')")
        page.select_option("select >> nth=1", "bidirectional")
        page.wait_for_selector("h2:has-text('links in both directions')")
        assert "n=12" in page.url
        assert "links=bidirectional" in page.url
        page.go_back()
        page.wait_for_selector("h2:has-text('any links')")


def test_the_table_sorts_by_its_heads(browser, site, entries):
    with opened(browser, site, "n=16") as page:
        texts = "[...document.querySelectorAll('td:nth-child(2)')].map((cell) => +cell.textContent)"
        steps = page.evaluate(texts)
        assert steps == sorted(steps)
        assert len(steps) > len(entries)
        page.click("th button >> nth=1")
        assert page.get_attribute("th >> nth=1", "aria-sort") == "descending"
        assert page.evaluate(texts) == sorted(steps, reverse=True)
        assert page.evaluate("document.activeElement.textContent") == "steps"


def test_baselines_are_hidden_and_the_address_keeps_that(browser, site):
    with opened(browser, site, "n=16") as page:
        assert page.locator(".mark.baseline").count() > 0
        page.uncheck("#baselines")
        page.locator(".mark.baseline").first.wait_for(state="detached")
        page.reload()
        page.wait_for_selector(".mark.front")
        assert page.locator(".mark.baseline").count() == 0
        assert page.evaluate("location.hash.includes('baselines=no')")


@pytest.mark.parametrize("most", [12, 510, 2048])
def test_labels_of_an_axis_do_not_touch(browser, site, most):
    touching = """(most) => {
        const design = (steps, at) => ({
            at, label: "", costs: { allgather: { steps, t_b: "1", number: 1 } } });
        const chart = explorer.chart.frontier({ n: 1021, degree: 4, compared: [],
            bounds: { allgather: [[5, "1020/1021"]] }, frontier: { allgather: [0] },
            designs: [5, 6, 14, most].map(design) }, "allgather", [], () => {});
        document.querySelector("main").replaceChildren(chart);
        const boxes = [...chart.querySelectorAll(".axis text")]
            .map((text) => text.getBoundingClientRect());
        if (boxes.length < 6) return "few labels";
        return boxes.some((one, at) => boxes.slice(at + 1).some((other) =>
            one.left < other.right && other.left < one.right
            && one.top + 3 < other.bottom && other.top + 3 < one.bottom));
    }"""
    with opened(browser, site, "n=16", viewport=PHONE) as page:
        assert page.evaluate(touching, most) is False


def test_colours_of_the_graph_are_explained(browser, site, entries):
    first = handle(entries[0].recipe)[1:]
    with opened(browser, site, f"view=design&n=16&a=4-any/16/{first}") as page:
        told = page.locator(".panel .keys .key").all_inner_texts()
        steps = entries[0].allgather.steps
        hops = ["root 0", *(f"{far} hop{'s' * (far > 1)}" for far in range(1, steps + 1))]
        assert told == [*hops, "sends in this step", "sent before", "has nothing of it"]


def test_two_designs_are_chosen_and_compared(browser, site):
    with opened(browser, site, "n=16") as page:
        for at in (0, 3):
            page.locator("button:text('Compare')").nth(at).click()
        page.wait_for_selector("main[data-view=compare] canvas >> nth=1")
        assert page.locator("figure .times").count() == 2
        page.select_option("#main section:nth-of-type(2) select >> nth=0", index=1)
        page.wait_for_selector("main[data-view=compare] canvas")
        assert re.search(r"takes [\d.]+ % of|Both take as long", page.inner_text(".formula"))


def test_served_pages_are_the_same(browser, entries, tmp_path):
    view = f"view=design&n=12&a=4-any/16/{handle(entries[0].recipe)[1:]}"
    with served(tmp_path) as address, opened(browser, f"{address}/", view) as page:
        assert "up to 12 nodes" in page.inner_text(".note")
        page.goto(f"{address}/#n=12")
        page.focus(".mark.front")
        page.keyboard.press("Enter")
        page.wait_for_selector("canvas")
        assert page.inner_text(".told").startswith("Before the first step")


def test_commands_on_the_page_work(browser, site, entries, tmp_path, monkeypatch, capsys):
    first = handle(entries[0].recipe)[1:]
    with opened(browser, site, f"view=design&n=16&a=4-any/16/{first}&c=allreduce") as page:
        page.wait_for_selector(".exchange pre")
        commands = [text for text in page.locator("pre").all_inner_texts() if " " in text]
        monkeypatch.chdir(tmp_path)
        ran = [text for text in commands if text.startswith("ocs-codesign ")]
        assert [shlex.split(text)[1] for text in ran] == [
            *("build", "verify", "cost", "topology", "optimum")
        ]
        for text in ran:
            assert main(shlex.split(text)[1:]) == 0, text
        capsys.readouterr()
        page.goto(f"{site}#view=files")
        page.wait_for_selector("#graph")
        page.set_input_files("#graph", tmp_path / "graph.json")
        page.wait_for_selector(".loads")
        assert page.get_attribute(".loads", "data-t_b") == str(entries[0].allgather.t_b)


PIXELS = "(canvas) => canvas.toDataURL()"
INK = """(canvas, name) => {
    const [red, green, blue] = d3.rgb(explorer.colour(name)).formatRgb().match(/\\d+/g).map(Number);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let number = 0;
    for (let at = 0; at < data.length; at += 4)
        number += data[at] === red && data[at + 1] === green && data[at + 2] === blue;
    return number;
}"""


def exchange_of(browser, site, recipe, look, act):
    question = "2-bidirectional/16" if recipe.startswith("BiRing") else "4-any/16"
    view = f"view=design&n=16&a={question}/{handle(recipe)[1:]}"
    with opened(browser, site, view, **look) as page:
        page.wait_for_selector(".exchange .matrix")
        act(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_alltoall_is_told_as_by_its_command_and_its_cut_is_drawn(browser, site, scheme, capsys):
    recipe = "BiRing(2, 16)"
    assert main(["optimum", recipe, "--collective", "alltoall"]) == 0
    lines = capsys.readouterr().out.splitlines()
    facts = dict(re.split(r" {2,}", line, maxsplit=1) for line in lines if "  " in line)
    assert facts.pop("network") == recipe

    def act(page):
        told = zip(
            *(page.locator(f".exchange {each}").all_inner_texts() for each in ("dt", "dd")),
            strict=True,
        )
        assert dict(told) == facts
        assert facts["t_b"] == "4"
        drawn = page.locator(".exchanged")
        assert drawn.get_attribute("aria-label") == (
            "All-to-all on 16 nodes, t_b 4. A cut of 8 nodes, 2 links out of it. "
            "32 links of 32 busy all the time."
        )
        assert drawn.evaluate(INK, "--bound") > 20
        circle = drawn.evaluate(PIXELS)
        page.select_option(".panel select >> nth=0", "force")
        assert drawn.evaluate(PIXELS) != circle
        shown = page.locator(".matrix")
        assert "240 pairs of nodes, 1 to 8 hops" in shown.get_attribute("aria-label")
        assert "64 cross the cut" in shown.get_attribute("aria-label")
        before = shown.evaluate(PIXELS)
        for end, node in (("from", "3"), ("to", "11")):
            page.fill(f"[data-end={end}]", node)
            page.keyboard.press("Tab")
        words = page.inner_text(".exchange .told")
        assert words == "From node 3 to node 11: 8 hops, across the cut."
        assert shown.evaluate(PIXELS) != before
        box = shown.bounding_box()
        cell = (box["width"] - 20) / 16
        shown.click(position={"x": 20 + 4.5 * cell, "y": 20 + 9.5 * cell})
        assert page.inner_text(".exchange .told") == "From node 9 to node 4: 5 hops."

    exchange_of(browser, site, recipe, {"color_scheme": scheme}, act)


def test_an_alltoall_that_no_cut_proves_has_the_links_with_prices(browser, site):
    def act(page):
        text = page.inner_text(".exchange")
        assert "no cheap cut: prices on 48 links" in text
        assert "busy all the time: 60 of 64 links" in text
        assert "cross" not in text
        assert page.locator(".exchanged").evaluate(INK, "--bound") > 20

    exchange_of(browser, site, "GeneralizedKautz(4, 16)", {"viewport": PHONE}, act)


def test_a_design_that_is_too_large_says_how_to_draw_it(browser, tmp_path, entries, place):
    del entries
    with Catalogue(place / "mine.sqlite") as store:
        write_site(tmp_path / "site", payloads(store, "mine.sqlite", store.questions(), 8))
        first = handle(store.entries(Question(16, 4))[0].recipe)[1:]
    address = (tmp_path / "site" / "index.html").as_uri()
    with opened(browser, address, f"view=design&n=16&a=4-any/16/{first}") as page:
        assert page.locator("canvas").count() == 0
        note = page.inner_text(".note")
        assert "up to 8 nodes" in note
        assert "--format json --out graph.json" in note
        page.wait_for_selector(".exchange pre")
        assert "of up to 8 nodes" in page.inner_text(".exchange .note")
        assert "--collective alltoall --plot" in page.inner_text(".exchange pre")


@pytest.fixture(scope="module")
def bundle(place):
    here = Path.cwd()
    os.chdir(place)
    try:
        fabric = place / "fabric.yaml"
        fabric.write_text(example_text(8, 2), encoding="utf-8")
        recipes = ["ring=BiRing(2, 8)", "other=GeneralizedKautz(2, 8)"]
        assert main(["deploy", *recipes, "--fabric", str(fabric), "--out", "bundle", "-q"]) == 0
    finally:
        os.chdir(here)
    return place / "bundle"


def test_a_bundle_is_opened_and_drawn(browser, site, bundle):
    with opened(browser, site, "view=files") as page:
        page.set_input_files("#bundle", bundle)
        page.wait_for_selector(".opened canvas >> nth=1")
        text = page.inner_text(".opened")
        assert "all as the manifest lists them" in text
        assert "ring, up now" in text
        assert text.count("all links within the budget") == 2
        assert page.get_attribute(".loads >> nth=0", "data-t_b") == "7/4"
        page.click("nav a:text('Frontier')")
        page.wait_for_selector("main[data-view=frontier]")
        page.set_viewport_size(PHONE)
        page.go_back()
        page.wait_for_selector("main[data-view=files]")
        assert page.inner_text(".opened") == text


def test_a_changed_bundle_is_seen(browser, site, bundle, tmp_path):
    changed = tmp_path / "bundle"
    shutil.copytree(bundle, changed)
    cabling = changed / "cabling.csv"
    cabling.write_bytes(cabling.read_bytes().replace(b"host00", b"host07", 1))
    with opened(browser, site, "view=files") as page:
        page.set_input_files("#bundle", changed)
        page.wait_for_selector(".opened .wrong")
        assert "missing or changed: cabling.csv" in page.inner_text(".opened .wrong")


def test_names_in_a_bundle_are_texts(browser, site, bundle, tmp_path):
    hostile = tmp_path / "bundle"
    shutil.copytree(bundle, hostile)
    manifest = json.loads((hostile / "manifest.json").read_bytes())
    evil = "<img src=x onerror=window.hit=1>"
    manifest["fabric"] = manifest["configurations"][0]["recipe"] = evil
    (hostile / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with opened(browser, site, "view=files") as page:
        page.set_input_files("#bundle", hostile)
        page.wait_for_selector(".opened canvas")
        assert evil in page.inner_text(".opened h2")
        assert page.evaluate("window.hit === undefined && !document.querySelector('img')")


def test_timelines_are_drawn(browser, site, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steps = "configuration,size\nring,4MiB\nstar,1MiB\nring,4MiB\n"
    Path("steps.csv").write_text(steps, encoding="utf-8")
    model = ["--planes", "2", "--bandwidth", "400Gb/s", "--delta", "1us"]
    assert main(["planes", "steps.csv", *model, "--json", "planes.json"]) == 0
    message = ["--message", "1MiB", "--latency", "1us", "--bandwidth", "100Gbps"]
    assert main(["simulate", 'Named("petersen")', *message, "--json", "sim.json"]) == 0
    capsys.readouterr()
    answers = {name: json.loads(Path(f"{name}.json").read_bytes()) for name in ("planes", "sim")}
    with opened(browser, site, "view=files") as page:
        page.set_input_files("#timeline", "planes.json")
        page.wait_for_selector(".opened .chart rect")
        assert page.locator(".opened rect").count() == len(answers["planes"]["timeline"])
        page.set_input_files("#timeline", "sim.json")
        page.wait_for_selector("h3:text('What decides the time')")
        drawn = page.locator(".opened figure >> nth=0").locator("rect").count()
        long = [
            each for each in answers["sim"]["critical_path"] if each["end_ns"] > each["start_ns"]
        ]
        assert drawn == len(long)
        assert 'Named("petersen")' in page.inner_text(".opened")


SLICE = "PodLattice((2, 2, 2), ((1, 0, 1), (0, 1, 1), (0, 0, 2)))"


def test_cubes_and_circuits_of_a_pod_are_told_apart(browser, site, tmp_path):
    assert main(["topology", SLICE, "--out", str(tmp_path / "slice.json")]) == 0
    anyone = {"nodes": [{"id": at, "cube": "ab"[at > 1]} for at in range(4)], "directed": False}
    anyone["links"] = [{"source": at, "target": (at + 1) % 4} for at in range(4)]
    (tmp_path / "anyone.json").write_text(json.dumps(anyone), encoding="utf-8")
    parts = """async (text) => {
        const { cubes, circuits } = explorer.graph.parse(text, "").parts;
        return [cubes, circuits.filter((each) => each).length];
    }"""
    with opened(browser, site, "view=files&layout=force") as page:
        for file, cubes, circuits in (
            ("slice.json", [0] * 8 + [1] * 8, 48),
            ("anyone.json", [0, 0, 1, 1], 4),
        ):
            text = (tmp_path / file).read_text(encoding="utf-8")
            assert page.evaluate(parts, text) == [cubes, circuits]
            page.set_input_files("#graph", tmp_path / file)
            page.locator("h2", has_text=file).wait_for()
            told = page.locator(".keys .key").all_inner_texts()
            assert told[:4] == ["cube 0", "cube 1", "circuit of a switch", "fixed link"]
        assert violations(page) == []


def test_large_graphs_are_drawn_in_part(browser, site, tmp_path):
    assert main(["topology", "GeneralizedKautz(4, 1100)", "--out", str(tmp_path / "g.txt")]) == 0
    with opened(browser, site, "view=files&layout=circle&colour=class&c=__proto__") as page:
        page.set_input_files("#graph", tmp_path / "g.txt")
        page.locator(".told", has_text="Schedules are played up to 1024 nodes").wait_for()
        note = page.inner_text(".panel .note")
        assert note.startswith("Of 4400 links one a node is drawn")
        inside = """() => {
            const canvas = document.querySelector("canvas");
            const { width, height } = canvas;
            const [x, y] = [width / 4, height / 4];
            const middle = canvas.getContext("2d").getImageData(x, y, 2 * x, 2 * y);
            return middle.data.some((value) => value > 0);
        }"""
        assert page.evaluate(inside)


BAD_FILES = [
    ("timeline", ".json", "{", "x0.json is no JSON"),
    ("timeline", ".json", "[]", "neither a timeline of planes nor a simulation"),
    ("timeline", ".json", '{"timeline": [{"start_s": "soon"}]}', "soon is no time"),
    ("graph", ".txt", "0 1\n1 none\n", "line 2: two numbers of nodes are needed"),
    ("graph", ".txt", "# nothing\n", "the file has no links"),
    ("graph", ".txt", "0 999999\n", "more than 4096 nodes are not drawn"),
    ("graph", ".json", '{"nodes": [], "edges": [{"source": 0}]}', "a link ends at a node"),
    ("graph", ".json", "{}", "this is no node-link JSON"),
]


def test_bad_files_are_refused_in_a_sentence(browser, site, tmp_path):
    with opened(browser, site, "view=files") as page:
        for at, (field, suffix, content, says) in enumerate(BAD_FILES):
            place = tmp_path / f"x{at}{suffix}"
            place.write_text(content, encoding="utf-8")
            page.set_input_files(f"#{field}", place)
            page.locator("[role=alert]", has_text=says).wait_for()


ADDRESSES = [
    ("view=design&a=4-any/16/ffffff", "there is no design #ffffff"),
    ("view=design&a=9-any/3/ffffff", "there are no designs of 3 nodes"),
    ("view=design", "Choose a design first"),
    ("view=compare", "Choose two designs first"),
    ("view=nonsense&n=abc&d=x&alpha=-1&bytes=1e999&c=what", "16 nodes of 4 ports"),
]


def test_any_address_shows_a_page(browser, site):
    with opened(browser, site, "n=16") as page:
        for view, says in ADDRESSES:
            page.goto(f"{site}#{view}")
            page.locator("main", has_text=says).wait_for()


def test_the_theme_is_that_of_the_system_until_it_is_chosen(browser, site):
    back = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, site, "n=16", color_scheme="dark") as page:
        dark = page.evaluate(back)
        page.click("#theme")
        light = page.evaluate(back)
        assert (light, dark) == ("rgb(255, 255, 255)", "rgb(20, 23, 27)")
        assert "theme=light" in page.url
        page.reload()
        page.wait_for_selector("main h2")
        assert page.evaluate(back) == light


def test_nothing_jumps_and_keys_reach_everything(browser, site):
    shifts = """() => new Promise((resolve) => new PerformanceObserver((list) => resolve(
        list.getEntries().reduce((sum, entry) => sum + entry.value, 0))
    ).observe({ type: "layout-shift", buffered: true }) || setTimeout(() => resolve(0), 300))"""
    with opened(browser, site, "n=16") as page:
        assert page.evaluate(shifts) < 0.1
        wanted = page.locator("a[href], button:enabled, input, select, [tabindex='0']").count()
        seen = set()
        for _ in range(wanted + 2):
            page.keyboard.press("Tab")
            seen.add(
                page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)")
            )
        assert len(seen) >= wanted


def shown_after_ms(page, act):
    """Milliseconds in the browser from an act to the view that it leads to."""
    return page.evaluate(
        """(act) => new Promise((resolve) => {
            const before = performance.now();
            new PerformanceObserver((list, watch) => {
                watch.disconnect();
                resolve(list.getEntriesByName("explorer-shown")[0].startTime - before);
            }).observe({ type: "mark" });
            explorer.state.set(act);
        })""",
        act,
    )


@pytest.mark.slow
def test_the_whole_catalogue_is_small_and_fast(browser, tmp_path):
    with Catalogue() as store:
        listing = write_site(tmp_path / "site", payloads(store, "all", store.questions(), 256))
    assert sum(listing["files"].values()) <= 60e6
    address = (tmp_path / "site" / "index.html").as_uri()
    first, large, drawn = [], [], []
    for _ in range(3):  # the least of three: what else the machine does is no fault of the page
        with opened(browser, address, "n=64") as page:
            marks = "performance.getEntriesByName('explorer-shown')[0].startTime"
            first.append(page.evaluate(marks))
            large.append(shown_after_ms(page, {"n": "2048"}))
            assert "2048 nodes" in page.inner_text("h2")
            with Catalogue() as store:
                entry = store.entries(Question(256, 8))[0]
            key = f"8-any/256/{handle(entry.recipe)[1:]}"
            drawn.append(shown_after_ms(page, {"view": "design", "a": key}))
            assert page.get_attribute(".loads", "data-t_b") == str(entry.allgather.t_b)
    assert min(first) < 1000
    assert min(large) < 200
