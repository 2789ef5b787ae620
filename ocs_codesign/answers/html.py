"""Tables and facts as HTML: every text in them is escaped, numbers are flush right.

Reports bring a style of their own; in notebooks tables have one that takes the colours of what
shows them. Greys are half transparent and texts inherit, so that light and dark are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, final
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_STYLE = """\
.ocs-shown{--ocs-accent:var(--jp-brand-color1,var(--vscode-textLink-foreground,\
var(--color-brand-primary,#1769aa)));\
color:var(--jp-content-font-color1,var(--vscode-editor-foreground,inherit))}
@media (prefers-color-scheme:dark){.ocs-shown{--ocs-accent:var(--jp-brand-color1,\
var(--vscode-textLink-foreground,var(--color-brand-primary,#64a8e0)))}}
.ocs-shown .scrolled{overflow-x:auto}
.ocs-shown.ocs-shown table{width:auto;margin:.4em 0;border:0;border-collapse:collapse;\
table-layout:auto;color:inherit}
.ocs-shown.ocs-shown tr,.ocs-shown.ocs-shown thead{border:0;background:none}
.ocs-shown.ocs-shown th,.ocs-shown.ocs-shown td{padding:.25em .7em;border:0;text-align:left;\
vertical-align:top;color:inherit;background:none;overflow-wrap:anywhere}
.ocs-shown.ocs-shown thead th{border-bottom:2px solid var(--ocs-accent);white-space:nowrap}
.ocs-shown.ocs-shown tbody td,.ocs-shown.ocs-shown tbody th\
{border-bottom:1px solid rgba(127,127,127,.3)}
.ocs-shown.ocs-shown tbody tr:nth-child(even){background:rgba(127,127,127,.1)}
.ocs-shown.ocs-shown tbody tr:hover{background:rgba(127,127,127,.22)}
.ocs-shown.ocs-shown .number{text-align:right;white-space:nowrap;\
font-variant-numeric:tabular-nums}
.ocs-shown.ocs-shown code{color:inherit;background:rgba(127,127,127,.15);overflow-wrap:anywhere}
.ocs-shown summary{cursor:pointer;color:inherit}
.ocs-shown summary::marker{color:var(--ocs-accent)}
"""
"""For notebooks: the variables are those of JupyterLab, VS Code and the documentation's theme."""


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


def notebook_html(parts: Iterable[str]) -> str:
    """Parts of HTML with the style of notebooks, which reaches nothing else.

    >>> notebook_html(["<p>one</p>"]).splitlines()[-1]
    '<p>one</p></div>'
    """
    return f'<div class="ocs-shown"><style>\n{_STYLE}</style>\n' + "\n".join(parts) + "</div>"


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
