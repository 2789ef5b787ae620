"""The theme of reports and explorer is readable on light and dark screens; pages ask nobody."""

from __future__ import annotations

import re

import pytest

from ocs_codesign.faces.web.report.report import page_html, style
from ocs_codesign.faces.web.site import static_files

TEXTS = ("ink", "soft", "accent", "wrong")
MARKS = ("kind-0", "kind-1", "kind-3", "kind-4", "kind-5", "link", "wrong")
"""Colours of lines, bars and boxes that tell something; what is empty may be faint."""


def palettes():
    """Colours by name: of light screens, of dark ones, and of those where dark was chosen."""
    found = re.findall(r":root(?:\S*) \{\s*color-scheme: \w+;(.*?)\}", style(), re.DOTALL)
    colours = [dict(re.findall(r"--([\w-]+): #(\w+);", text)) for text in found]
    return dict(zip(("light", "dark", "chosen"), colours, strict=True))


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_marks_stand_out(scheme):
    palette = palettes()[scheme]
    assert (luminance(palette["back"]) > 0.5) == (scheme == "light")
    for names, least in ((TEXTS, 4.5), (MARKS, 3.0)):
        for name in names:
            assert contrast(palette["back"], palette[name]) >= least, name


def test_a_chosen_theme_is_that_of_the_system():
    assert palettes()["dark"] == palettes()["chosen"]


def test_every_colour_that_is_used_is_in_both_palettes():
    sheets = (style(), static_files()["style.css"].read_text(encoding="utf-8"))
    used = set(re.findall(r"var\(--([\w-]+)\)", "".join(sheets)))
    assert used <= set(palettes()["light"])
    assert set(palettes()["light"]) == set(palettes()["dark"])


def test_reports_and_explorer_have_one_theme():
    theme = static_files()["theme.css"].read_text(encoding="utf-8")
    assert theme in page_html("title", "lead", {})
    page = static_files()["index.html"].read_text(encoding="utf-8")
    assert page.index('href="theme.css"') < page.index('href="style.css"')
    for sheet in ("style.css", "theme.css"):
        assert ("--ink:" in static_files()[sheet].read_text(encoding="utf-8")) == (
            sheet == "theme.css"
        )


def test_the_page_asks_nobody():
    page = page_html("t", "l", {"A b": "c"})
    assert not re.search(r"https?:|url\(|@import|<script| src=", page)
    assert re.findall(r"<link[^>]*>", page) == ['<link rel="icon" href="data:,">']
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert '<a href="#a-b">' in page
    assert '<section id="a-b">' in page
