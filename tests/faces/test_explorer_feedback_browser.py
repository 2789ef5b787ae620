"""What the explorer says back: that a text was copied, what axes show; options stay whole."""

from __future__ import annotations

import json

import pytest
from browser_samples import PHONE, SIZE, launched, opened, playwright, violations

from ocs_codesign.faces.web.site import payloads, write_site
from ocs_codesign.graphs.handle import handle
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.catalogue.store import Catalogue

expect = playwright.expect
ASKED = Question(12, 2)
CLIPBOARD = ["clipboard-read", "clipboard-write"]
READ = "navigator.clipboard.readText()"

# Options of the page's texts that stand on more than one line, whatever elements they are in.
BROKEN = r"""() => {
    const found = [], broken = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
        for (const option of text.data.matchAll(/--[a-z-]+/g)) {
            const range = document.createRange();
            range.setStart(text, option.index);
            range.setEnd(text, option.index + option[0].length);
            const lines = new Set([...range.getClientRects()].map((each) => Math.round(each.top)));
            if (lines.size) found.push(option[0]);
            if (lines.size > 1) broken.push(option[0]);
        }
    }
    return [found, broken];
}"""

# Charts of what was opened: names, ticks with their places, bars, and texts over others or outside.
CHARTS = """() => [...document.querySelectorAll(".opened svg.chart")].map((chart) => {
    const texts = [...chart.querySelectorAll("text")].filter((text) => text.textContent);
    const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
    const all = chart.getBoundingClientRect();
    const touch = (one, other) => one.left < other.right && other.left < one.right
        && one.top < other.bottom - 1 && other.top < one.bottom - 1;
    return {
        names: [...chart.querySelectorAll("text.name")].map((text) => text.textContent),
        ticks: [...chart.querySelectorAll(".axis .tick")].map((tick) =>
            [Number(tick.textContent), tick.transform.baseVal[0].matrix.e - 0.5]),
        bars: [...chart.querySelectorAll("rect")].map((bar) =>
            [bar.x.baseVal.value, bar.x.baseVal.value + bar.width.baseVal.value]),
        touching: boxes.flatMap(([name, box], at) => boxes.slice(at + 1)
            .filter(([, other]) => touch(box, other)).map(([other]) => [name, other])),
        outside: boxes.filter(([, box]) => box.left < all.left - 0.5 || box.right > all.right + 0.5
            || box.top < all.top - 0.5 || box.bottom > all.bottom + 0.5).map(([name]) => name),
    };
})"""


@pytest.fixture(scope="module")
def browser():
    with launched() as started:
        yield started


@pytest.fixture(scope="module")
def design():
    with Catalogue() as store:
        return store.entries(ASKED)[0]


@pytest.fixture(scope="module")
def site(tmp_path_factory, design):
    place = tmp_path_factory.mktemp("feedback")
    del design
    with Catalogue() as store:
        write_site(place / "site", payloads(store, "one", [ASKED], 8))  # no graphs of 12 nodes
    return (place / "site" / "index.html").as_uri()


def view_of(design):
    return f"view=design&n=12&d=2&a=2-any/12/{handle(design.recipe)[1:]}"


def told(page):
    return page.inner_text("#status").replace("\u00a0", " ").strip()


@pytest.mark.parametrize(("scheme", "viewport"), [("light", SIZE), ("dark", PHONE)])
def test_copying_is_seen_and_heard(browser, site, design, scheme, viewport):
    look = {"color_scheme": scheme, "viewport": viewport, "permissions": CLIPBOARD}
    with opened(browser, site, view_of(design), **look) as page:
        page.clock.install()
        button, shown = page.locator(".copied button").first, page.locator(".copied pre").first
        before = shown.bounding_box()
        ground = "(button) => getComputedStyle(button).backgroundColor"
        usual = button.evaluate(ground)
        assert page.get_attribute("#status", "role") == "status"
        assert page.get_attribute("#status", "aria-live") == "polite"
        assert told(page) == ""
        button.click()
        expect(button).to_have_text("Copied")
        assert page.evaluate(READ) == design.recipe
        assert button.get_attribute("aria-label") == "Copied the recipe"
        assert button.evaluate(ground) != usual
        assert told(page) == "the recipe copied."
        assert shown.bounding_box() == before
        assert violations(page) == []
        page.clock.fast_forward(3000)
        first = page.inner_text("#status")
        button.click()  # is heard again, and seen for as long again
        for _ in range(10_000):
            if page.inner_text("#status") != first:
                break
            page.wait_for_timeout(20)
        assert page.inner_text("#status") != first
        assert told(page) == "the recipe copied."
        page.clock.fast_forward(3000)
        assert button.inner_text() == "Copied"
        page.clock.fast_forward(2000)
        assert button.inner_text() == "Copy"
        assert button.get_attribute("aria-label") == "Copy the recipe"
        assert button.evaluate(ground) == usual


def test_every_text_is_copied_as_it_is_shown(browser, site, design):
    with opened(browser, site, view_of(design), permissions=CLIPBOARD) as page:
        page.wait_for_selector(".exchange pre")
        rows = page.locator(".copied")
        texts = [rows.nth(at).locator("code").text_content() for at in range(rows.count())]
        assert len(texts) == 7  # the recipe, four commands, two of what is too large
        for at, text in enumerate(texts):
            rows.nth(at).locator("button").click()
            expect(rows.nth(at).locator("button")).to_have_text("Copied")
            assert page.evaluate(READ) == text
        assert sum("--" in text for text in texts) == 4


@pytest.mark.parametrize("is_allowed", [True, False])
def test_where_the_clipboard_is_refused_the_text_is_selected(browser, site, design, is_allowed):
    with opened(browser, site, view_of(design)) as page:
        page.evaluate(
            """(isAllowed) => {
                navigator.clipboard.writeText = () => Promise.reject(new Error("not allowed"));
                document.execCommand = (command) => command === "copy" && isAllowed;
            }""",
            is_allowed,
        )
        button = page.locator(".copied button").first
        button.click()
        page.wait_for_selector(".copied button.done")
        assert page.evaluate("getSelection().toString()") == design.recipe
        assert button.inner_text() == ("Copied" if is_allowed else "Selected")
        assert ("copied." in told(page)) == is_allowed
        assert ("selected: copy it" in told(page)) != is_allowed


def test_options_of_commands_stay_on_one_line(browser, site, design, tmp_path):
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    with opened(browser, site, view_of(design)) as page:
        check_whole(page, {"--collective", "--out", "--format", "--serve"})
        page.click("nav a:text('Files')")
        page.set_input_files("#timeline", tmp_path / "other.json")
        page.wait_for_selector(".opened .wrong")
        check_whole(page, {"--archive", "--json"})


def check_whole(page, options):
    """The options are on the page, and none is broken at any width of its lines."""
    for width in range(300, 700, 7):
        page.set_viewport_size({"width": width, "height": 844})
        found, broken = page.evaluate(BROKEN)
        assert options <= set(found)
        assert broken == []


@pytest.mark.parametrize("viewport", [SIZE, PHONE])
@pytest.mark.parametrize(
    ("last_s", "scale_s", "unit"),
    [(3.25, 1, "s"), (0.97, 1e-3, "ms"), (8.2e-5, 1e-6, "µs"), (4.1e-7, 1e-9, "ns")],
)
def test_axes_of_planes_have_names_and_units(browser, site, viewport, last_s, scale_s, unit):
    rows = [
        {"plane": at % 3, "start_s": last_s * at / 7, "end_s": last_s * (at + 1) / 7}
        | {"activity": "send", "configuration": "ring", "step": at}
        for at in range(7)
    ]
    answer = {"timeline": rows, "time_s": last_s, "planes": 3}
    with opened(browser, site, "view=files", viewport=viewport) as page:
        (chart,) = charts_of(page, answer)
        assert chart["names"] == [f"time ({unit})", "plane"]
        ends = sorted(end for row in rows for end in (row["start_s"], row["end_s"]))
        drawn = sorted(end for bar in chart["bars"] for end in bar)
        assert times(chart, drawn, scale_s) == pytest.approx(ends, rel=1e-3, abs=1e-3 * last_s)


@pytest.mark.parametrize("viewport", [SIZE, PHONE])
def test_axes_of_a_simulation_have_names_and_units(browser, site, viewport):
    links = [
        {
            "link": at,
            "tail": at,
            "head": at + 1000,
            "busy_ns": 900 * (at + 1),
            "idle_ns": {"data": 50},
        }
        for at in range(5)
    ]
    path = [
        {"link": at, "part": "send", "step": at, "start_ns": 1000 * at, "end_ns": 1000 * at + 800}
        for at in range(5)
    ]
    answer = {"critical_path": path, "links": links, "time_ns": 4800, "collective": "allgather"}
    answer |= {"num_ranks": 6, "message_bytes": 1024, "formula_ns": 4800, "bound_ns": None}
    with opened(browser, site, "view=files", viewport=viewport) as page:
        critical, usage = charts_of(page, answer)
        assert critical["names"] == ["time (µs)", "link"]
        assert usage["names"] == ["time in all (µs)", "link"]
        ends = sorted(1e-9 * (1000 * at + more) for at in range(5) for more in (0, 800))
        drawn = sorted(end for bar in critical["bars"] for end in bar)
        assert times(critical, drawn, 1e-6) == pytest.approx(ends, rel=1e-3, abs=1e-9)
        widths = sorted(
            end - start for start, end in usage["bars"] if start == usage["ticks"][0][1]
        )
        busy = [times(usage, [usage["ticks"][0][1] + width], 1e-6)[0] for width in widths]
        assert busy == pytest.approx([900e-9 * (at + 1) for at in range(5)], rel=1e-3)


def charts_of(page, answer):
    """The charts of a JSON answer, after a look that their texts are whole and apart."""
    content = json.dumps(answer).encode()
    page.set_input_files("#timeline", {"name": "a.json", "mimeType": "", "buffer": content})
    page.wait_for_selector(".opened .chart rect")
    charts = page.evaluate(CHARTS)
    for chart in charts:
        assert chart["touching"] == []
        assert chart["outside"] == []
    assert violations(page) == []
    return charts


def times(chart, places, scale_s):
    """What the ticks of a chart say that places along it are, in seconds."""
    (first, low), (last, high) = chart["ticks"][0], chart["ticks"][-1]
    a_pixel_s = (last - first) / (high - low) * scale_s
    return [first * scale_s + (place - low) * a_pixel_s for place in places]
