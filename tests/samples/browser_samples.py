"""Chromium of the system for the tests, and pages in which nothing may go wrong.

Who imports this is skipped where the browser or the extra ``browser`` is missing.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra browser")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("needs chromium of the system", allow_module_level=True)

SIZE = {"width": 1280, "height": 900}
playwright.expect.set_options(timeout=120_000)
PHONE = {"width": 390, "height": 844}


@contextmanager
def launched():
    """The browser, until the end."""
    with playwright.sync_playwright() as driver:
        flags = ["--no-sandbox"] if os.name == "posix" and os.geteuid() == 0 else []
        started = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield started
        started.close()


@contextmanager
def opened(browser, address, view="", **options):
    """A page that shows a view; nothing may go wrong in it and nothing be asked of a network."""
    context = browser.new_context(**{"viewport": SIZE, "color_scheme": "light", **options})
    context.set_default_timeout(120_000)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    own = address.rpartition("/")[0]
    page.on("request", lambda asked: None if is_own(asked.url, own) else wrong.append(asked.url))
    try:
        page.goto(f"{address}#{view}")
        page.wait_for_selector("main[data-view] > *" if view else "main > *")
        yield page
        assert wrong == []
    finally:
        context.close()


def is_own(url, own):
    return url.startswith((f"{own}/", "data:"))


def violations(page):
    """What axe-core has against a page: the rules, and the elements that break them."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page, options={"preload": False}).response["violations"]
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]
