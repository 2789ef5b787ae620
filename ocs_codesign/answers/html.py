"""Tables and facts as HTML: every text in them is escaped, numbers are flush right."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@final
@dataclass(frozen=True, slots=True)
class FileLink:
    """A file of a bundle, to open from the report beside it."""

    path: str

    def __str__(self) -> str:
        return self.path


def table_html(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Sequence[str] = (),
    code: Sequence[str] = (),
    note: str = "",
    label: str = "",
) -> str:
    """A table of plain text; columns named in ``numbers`` are flush right, in ``code`` monospaced.

    A ``note`` is a paragraph below it. With a ``label`` it is a region of the page that keys reach,
    so that they can scroll it.

    >>> "&lt;b&gt;" in table_html(("name",), [("<b>",)])
    True
    """
    kinds = [
        ' class="number"' if name in numbers else ' class="code"' if name in code else ""
        for name in columns
    ]
    head = "".join(
        f'<th scope="col"{kind if "number" in kind else ""}>{escape(name)}</th>'
        for name, kind in zip(columns, kinds, strict=True)
    )
    lines = [
        "<tr>"
        + "".join(
            f"<td{kind}>{cell_html(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)
        )
        + "</tr>"
        for row in rows
    ]
    region = f' tabindex="0" role="region" aria-label="{escape(label)}"' if label else ""
    return (
        f'<div class="scrolled"{region}><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(lines)
        + "\n</tbody>\n</table></div>"
        + (f'<p class="note">{escape(note)}</p>' if note else "")
    )


def facts_html(rows: Iterable[tuple[str, object]]) -> str:
    """Names with what they are, as a list.

    >>> facts_html([("hosts", 8)])
    '<dl><dt>hosts</dt><dd>8</dd></dl>'
    """
    lines = (f"<dt>{escape(name)}</dt><dd>{cell_html(value)}</dd>" for name, value in rows)
    return f"<dl>{''.join(lines)}</dl>"


def cell_html(cell: object) -> str:
    """A text, or a link to a file."""
    text = escape(str(cell))
    return f'<a href="{quote(cell.path)}">{text}</a>' if isinstance(cell, FileLink) else text
