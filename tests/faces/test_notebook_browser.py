"""Values in light and dark notebooks: texts are read and rows told apart, whatever shows them."""

from __future__ import annotations

import re

import pytest
from browser_samples import launched

import ocs_codesign as oc

WHITE, BLACK = "#ffffff", "#111111"
HOSTS = {
    "JupyterLab light": (
        "--jp-content-font-color1:rgba(0,0,0,.87);--jp-brand-color1:#1976d2",
        WHITE,
    ),
    "JupyterLab dark": ("--jp-content-font-color1:#fff;--jp-brand-color1:#2196f3", BLACK),
    "VS Code light": (
        "--vscode-editor-foreground:#333;--vscode-textLink-foreground:#006ab1",
        WHITE,
    ),
    "VS Code dark": (
        "--vscode-editor-foreground:#ccc;--vscode-textLink-foreground:#3794ff",
        "#1e1e1e",
    ),
    "documentation light": ("--color-brand-primary:#0a4bff;color:#000", WHITE),
    "documentation dark": ("--color-brand-primary:#3d94ff;color:#cfd0d0", "#131416"),
    "neither": ("color-scheme:light dark", None),
}
"""Variables of what shows notebooks, and its background; None for that of the system's colours."""

# What texts, lines and rows look like, what is half transparent being laid over what is below.
LOOK = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const over = (top, below) => {
    const alpha = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map(at => alpha * top[at] + (1 - alpha) * below[at]);
  };
  const canvas = document.createElement('div');
  canvas.style.color = 'Canvas';
  document.body.append(canvas);
  const base = over(parse(getComputedStyle(document.body).backgroundColor),
                    parse(getComputedStyle(canvas).color));
  const below = node => {
    const chain = [];
    for (let at = node; at && at !== document.body; at = at.parentElement) chain.unshift(at);
    return chain.reduce((known, one) => over(parse(getComputedStyle(one).backgroundColor), known),
                        base);
  };
  const texts = [...document.querySelectorAll('.ocs-shown :is(th, td, p, summary, code)')].map(
    node => {
      const ground = below(node);
      return [over(parse(getComputedStyle(node).color), ground), ground];
    });
  const lines = [...document.querySelectorAll('.ocs-shown thead th')].map(
    node => [over(parse(getComputedStyle(node).borderBottomColor), base), below(node)]);
  const rows = [...document.querySelectorAll('.ocs-shown tbody tr')].map(row => below(row));
  const right = [...document.querySelectorAll('.ocs-shown td.number')].every(
    node => getComputedStyle(node).textAlign === 'right');
  return {base, texts, lines, rows, right, outside: getComputedStyle(
    document.querySelector('#outside td')).borderBottomStyle};
}"""


def luminance(colour):
    parts = [part / 255 for part in colour]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.fixture(scope="module")
def browser():
    with launched() as started:
        yield started


@pytest.fixture(scope="module")
def shown():
    values = oc.frontier(12, 4), oc.measure("Torus((4, 4))"), oc.parse("Complete(4)").topology()
    return "".join(value._repr_html_() for value in values)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("host", HOSTS)
def test_texts_are_read_and_rows_told_apart(browser, shown, host, scheme):
    """The colours are those of the host, also where those of the system are the other ones."""
    variables, background = HOSTS[host]
    ground = f"background:{background}" if background else ""
    own = "<table id=outside><tr><td>of another library</table>"
    page = browser.new_page(color_scheme=scheme)
    try:
        page.set_content(
            f'<!doctype html><html style="{variables}"><body style="{ground}">{shown}{own}</body>'
        )
        look = page.evaluate(LOOK)
    finally:
        page.close()
    assert len(look["texts"]) > 30
    assert min(contrast(*pair) for pair in look["texts"]) >= 4.5
    assert look["lines"]
    assert min(contrast(*pair) for pair in look["lines"]) >= 3
    grounds = {tuple(row) for row in look["rows"]}
    assert tuple(look["base"]) in grounds
    assert len(grounds) == 2
    assert look["right"]
    assert look["outside"] == "none"
    is_dark = luminance(look["base"]) < 0.2
    assert is_dark == (scheme == "dark" if background is None else "dark" in host)


def test_wide_tables_scroll_in_themselves(browser):
    page = browser.new_page(viewport={"width": 320, "height": 600})
    try:
        page.set_content(f"<!doctype html>{oc.frontier(61, 4)._repr_html_()}")
        wide, room = page.evaluate(
            "() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
    finally:
        page.close()
    assert wide <= room


def test_the_style_reaches_nothing_else(shown):
    for style in re.findall(r"<style>(.*?)</style>", shown, re.DOTALL):
        rules = re.sub(r"@media[^{]*\{", "", style)
        selectors = re.findall(r"([^{}]+)\{", rules)
        assert selectors
        assert all(
            one.strip().startswith(".ocs-shown") for each in selectors for one in each.split(",")
        )
