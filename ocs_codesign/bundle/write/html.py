"""A page of HTML that needs nothing else: style, tables with every cell escaped, pictures."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_STYLE = """
:root { --ink: #1c2530; --soft: #5d6b7a; --line: #dfe4ea; --accent: #0b5fa5; --page: #fff;
  --bad: #b3261e; color-scheme: light dark; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ef; --soft: #9dabba; --line: #35404c; --accent: #79b8f3; --page: #14191f;
    --bad: #ff8a80; }
}
* { box-sizing: border-box; }
body { background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  margin: 0 auto; max-width: 70rem; padding: 2rem 1.5rem 4rem; }
h1 { font-size: 1.7rem; margin: 0; }
h2 { border-top: 1px solid var(--line); font-size: 1.15rem; margin: 2.4rem 0 .6rem;
  padding-top: 1.2rem; }
h1, p { overflow-wrap: anywhere; }
p { max-width: 46rem; }
.lead, figcaption, .note { color: var(--soft); }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th { color: var(--soft); font-weight: 600; text-align: left; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem 1rem .3rem 0;
  vertical-align: top; }
td.number, th.number { font-variant-numeric: tabular-nums; text-align: right; }
td.number { white-space: nowrap; }
td.code { font-family: ui-monospace, monospace; font-size: .82rem; min-width: 7rem;
  overflow-wrap: anywhere; }
figure { margin: 1rem 0; overflow-x: auto; }
img { background: #fff; display: block; max-width: 100%; width: 40rem; }
nav { display: flex; flex-wrap: wrap; gap: 0 1rem; }
nav a, td a { color: var(--accent); text-decoration: none; }
.bad { color: var(--bad); font-weight: 600; }
@media (max-width: 40rem) {
  body { padding: 1rem .8rem 2rem; }
  h1 { font-size: 1.35rem; }
  th, td { padding-right: .7rem; }
  td:not(.number):last-child { min-width: 10rem; }
  td.code { min-width: 15rem; }
  img { max-width: none; width: 34rem; }
}
@media print { nav { display: none; } h2 { break-after: avoid; } tr { break-inside: avoid; } }
"""


@final
@dataclass(frozen=True, slots=True)
class FileLink:
    """A file of the bundle, to open from the report beside it."""

    path: str

    def __str__(self) -> str:
        return self.path


@final
@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of the report: what it shows, and its SVG."""

    title: str
    svg: bytes


def page_html(title: str, lead: str, sections: Mapping[str, str]) -> str:
    """The whole page; title and lead are plain text, ``sections`` HTML by heading, if any."""
    parts = {heading: html for heading, html in sections.items() if html}
    contents = "".join(f'<a href="#{heading.lower()}">{heading}</a>' for heading in parts)
    body = "\n".join(
        f'<section id="{heading.lower()}">\n<h2>{heading}</h2>\n{html}\n</section>'
        for heading, html in parts.items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>\n<nav>{contents}</nav>\n'
        f"{body}\n</body>\n</html>\n"
    )


def table_html(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[str] = (),
    code: Sequence[str] = (),
    note: str = "",
) -> str:
    """A table of plain text; columns named in ``numbers`` are flush right, in ``code`` monospaced.

    A ``note`` is a paragraph below it.

    >>> "&lt;b&gt;" in table_html(("name",), [("<b>",)])
    True
    """
    kinds = [
        ' class="number"' if name in numbers else ' class="code"' if name in code else ""
        for name in columns
    ]
    head = "".join(
        f"<th{kind if 'number' in kind else ''}>{escape(name)}</th>"
        for name, kind in zip(columns, kinds, strict=True)
    )
    lines = [
        "<tr>"
        + "".join(f"<td{kind}>{_cell(cell)}</td>" for cell, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for row in rows
    ]
    return (
        f'<div class="table"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody>\n</table></div>"
        + (f'<p class="note">{escape(note)}</p>' if note else "")
    )


def _cell(cell: object) -> str:
    text = escape(str(cell))
    return f'<a href="{quote(cell.path)}">{text}</a>' if isinstance(cell, FileLink) else text


def picture_html(picture: Picture) -> str:
    """A picture inside the page, as a data URI, so that its names stay its own."""
    data = b64encode(picture.svg).decode("ascii")
    title = escape(picture.title)
    return (
        f'<figure><img alt="{title}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{title}</figcaption></figure>"
    )
