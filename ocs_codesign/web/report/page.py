"""The page of a report: sections under headings, with the style of the explorer inside."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page_html(title: str, lead: str, sections: Mapping[str, str]) -> str:
    """The whole page; title and lead are plain text, ``sections`` HTML by heading, if any.

    It has no scripts, and its policy lets it load nothing.
    """
    parts = {heading: html for heading, html in sections.items() if html}
    contents = "".join(f'<a href="#{anchor(heading)}">{escape(heading)}</a>' for heading in parts)
    body = "\n".join(
        f'<section id="{anchor(heading)}">\n<h2>{escape(heading)}</h2>\n{html}\n</section>'
        for heading, html in parts.items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{style()}</style>\n</head>\n<body>\n"
        f'<header>\n<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>\n'
        f'<nav aria-label="Sections">{contents}</nav>\n</header>\n'
        f"<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def style() -> str:
    """The explorer's theme, then what only reports need."""
    web = files("ocs_codesign.web")
    sheets = (web.joinpath("static", "theme.css"), web.joinpath("report", "report.css"))
    return "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)


def anchor(heading: str) -> str:
    """The place of a section in the page.

    >>> anchor("Step loads")
    'step-loads'
    """
    return heading.lower().replace(" ", "-")
