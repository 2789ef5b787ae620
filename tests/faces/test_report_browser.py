"""The report of a bundle in a real browser, from disk: at the width of a phone, light and dark."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from browser_samples import PHONE, SIZE, launched, opened, violations
from bundle_samples import named, small_fabric, stages_fabric, written
from embed_samples import fabric

from ocs_codesign.fabric.deployments.day_two import repaired
from ocs_codesign.fabric.deployments.deploy import Failures, deploy
from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.wiring import Port

TWO = named(("ring", "BiRing(2, 8)"), ("cube", "Circulant(8, (1, 3))"))


@pytest.fixture(scope="module")
def browser():
    with launched() as started:
        yield started


def broken():
    lost = Failures(("h2",), (Port("p0s0", "A", 1),))
    return repaired(deploy(small_fabric(), TWO, ("allreduce", "alltoall")), lost)[0]


DEPLOYMENTS = {
    "failures": broken,
    "without sides": lambda: deploy(small_fabric(PortModel.MATCHING), TWO),
    "three stages": lambda: deploy(stages_fabric(), named(("a", "Circulant(8, (1, 2))"))),
    "large": lambda: deploy(
        fabric(1024, [[1024]] * 2), named(("kautz", "GeneralizedKautz(2, 1024)")), ("allgather",)
    ),
}


@pytest.fixture(scope="module", params=DEPLOYMENTS)
def report(request, tmp_path_factory):
    out = written(
        DEPLOYMENTS[request.param](), tmp_path_factory.mktemp(request.param.split()[0]) / "out"
    )
    return out / "report.html"


def test_the_report_is_accessible_and_fits(browser, report):
    """At both widths, light and dark; every look of the first report, two of the others."""
    looks = list(product(("light", "dark"), (SIZE, PHONE)))
    chosen = looks if "failures" in str(report) else looks[::3]
    with opened(browser, report.as_uri()) as page:
        for scheme, viewport in chosen:
            page.set_viewport_size(viewport)
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            back = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert back == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[scheme]
            assert violations(page) == []


def test_texts_of_pictures_are_inside_and_can_be_read_on_a_phone(browser, report):
    with opened(browser, report.as_uri(), viewport=PHONE) as page:
        wrong = page.evaluate(
            """() => [...document.querySelectorAll("svg text")].filter((text) => {
                const here = text.getBoundingClientRect();
                const whole = text.ownerSVGElement.getBoundingClientRect();
                const size = parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
                const outside = here.left < whole.left - 1 || here.right > whole.right + 1
                    || here.top < whole.top - 1 || here.bottom > whole.bottom + 1;
                return outside || (text.transform.baseVal.length === 0 && size < 10);
            }).map((text) => text.outerHTML)"""
        )
        assert wrong == []
        assert page.locator("svg").count() > 5


def test_links_lead_to_files_of_the_bundle(browser, report):
    with opened(browser, report.as_uri()) as page:
        hrefs = page.eval_on_selector_all(
            "a[href]", "links => links.map((link) => link.getAttribute('href'))"
        )
        files = {href for href in hrefs if not href.startswith("#")}
        assert "cabling.csv" in files
        assert all((report.parent / href).is_file() for href in files)
        page.click("nav a:text('Files')")
        assert page.url.endswith("#files")
        assert page.evaluate("document.querySelector('#files').getBoundingClientRect().top < 400")


def test_keys_scroll_wide_tables(browser, report):
    with opened(browser, report.as_uri(), viewport=PHONE) as page:
        table = page.locator("#files .scrolled")
        table.focus()
        for _ in range(5):
            page.keyboard.press("ArrowRight")
        scrolled = "document.querySelector('#files .scrolled').scrollLeft"
        for _ in range(2_000):
            if page.evaluate(scrolled) > 0:
                break
            page.wait_for_timeout(100)
        assert page.evaluate(scrolled) > 0


def test_the_report_is_small(report):
    assert report.stat().st_size < 120_000
    assert not re.search(r"https?://|<script", Path(report).read_text(encoding="utf-8"))
