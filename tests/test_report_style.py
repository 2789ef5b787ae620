"""The report of a bundle is readable on light and dark screens, and asks nobody for anything."""

from __future__ import annotations

import re

import pytest

from ocs_codesign.bundle.write.html import page_html


def palettes():
    """Colours by name, of light screens and of dark ones."""
    page = page_html("title", "lead", {})
    light, dark = re.findall(r":root \{(.*?)\}", page, re.DOTALL)
    found = [dict(re.findall(r"--(\w+): #(\w+);", text)) for text in (light, dark)]
    return dict(zip(("light", "dark"), found, strict=True))


def luminance(colour):
    digits = colour if len(colour) == 6 else "".join(digit * 2 for digit in colour)
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(scheme):
    palette = palettes()[scheme]
    page = luminance(palette["page"])
    assert (page > 0.5) == (scheme == "light")
    for name in ("ink", "soft", "accent", "bad"):
        low, high = sorted((page, luminance(palette[name])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, name


def test_the_page_asks_nobody():
    assert not re.search(r"https?:|url\(|@import|<script|<link", page_html("t", "l", {"A": "b"}))
