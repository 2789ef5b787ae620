"""How the documentation is built: ``sphinx-build -W docs docs/_build``."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from directives import Run, Thumbnails  # noqa: E402
from docutils import nodes  # noqa: E402
from pages import write_answer_page, write_command_pages, write_papers_page, write_reference_pages  # noqa: E402
from runs import run_pages  # noqa: E402

import ocs_codesign  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "ocs_codesign"
author = "The ocs_codesign developers"
copyright = author  # noqa: A001
release = version = ocs_codesign.__version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["_build", "_ran"]
nb_execution_mode = "off"
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"
default_role = "literal"
copybutton_only_copy_prompt_lines = False
html_theme = "furo"
html_title = f"ocs_codesign {release}"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["pages.css"]
html_show_sphinx = False
html_show_sourcelink = False


def add_dark_pictures(app: Sphinx, page: nodes.document) -> None:
    """Beside a picture that has a dark companion comes that one; the theme shows one of them."""
    here = Path(app.env.doc2path(app.env.docname)).parent
    for image in list(page.findall(nodes.image)):
        dark = str(Path(image["uri"]).with_suffix(".dark.png"))
        if (here / dark).is_file():
            other = image.deepcopy()
            other["uri"] = dark
            image["classes"].append("only-light")
            other["classes"].append("only-dark")
            image.parent.insert(image.parent.index(image) + 1, other)


def link_pictures(app: Sphinx, page: nodes.document, name: str) -> None:
    """Every picture leads to itself at full size: labels are small where a page is narrow."""
    known = app.env.images if app.builder.format == "html" else {}
    for image in list(page.findall(nodes.image)):
        if image["uri"] in known and not isinstance(image.parent, nodes.reference):
            file = "../" * name.count("/") + "_images/" + known[image["uri"]][1]
            link = nodes.reference("", "", refuri=file, classes=["picture", *image["classes"]])
            image.replace_self(link)
            link += image


def keep_options_whole(
    _app: Sphinx,
    _name: str,
    _template: str,
    context: dict[str, object],
    _page: nodes.document | None,
) -> None:
    """Options of commands are marked, for a browser breaks lines after their hyphens else.

    Blocks and tables that scroll on a narrow screen can be reached by keys, a corner of a table
    that says nothing is no heading, and captions of the theme's list of pages are headings of a
    level, as readers of screens need.
    """
    option = r'<span class="pre">(--[a-z][\w-]*)</span>'
    if "body" in context:
        marked = r'<span class="pre option">\1</span>'
        body = re.sub(option, marked, str(context["body"]))
        wide = r'<(pre(?=>)|div(?= class="(?:table-wrapper|output text_html|scrolled)))'
        body = re.sub(wide, r'<\1 tabindex="0"', body)
        context["body"] = re.sub(r"<th[^>]*>(<p></p>)?</th>", "<td></td>", body)
    if "furo_navigation_tree" in context:
        captions = str(context["furo_navigation_tree"])
        levelled = captions.replace('role="heading"', 'role="heading" aria-level="2"')
        context["furo_navigation_tree"] = levelled


def setup(app: Sphinx) -> None:
    """Pages of commands and of the Python interface are made from the package itself."""
    app.connect("doctree-read", add_dark_pictures, priority=400)  # before pictures are collected
    app.connect("doctree-resolved", link_pictures)
    app.connect("html-page-context", keep_options_whole, priority=900)  # after the theme
    app.add_directive("run", Run)
    app.add_directive("thumbnails", Thumbnails)
    app.connect("builder-inited", lambda _: run_pages())
    app.connect("builder-inited", lambda _: write_command_pages(HERE / "commands"))
    app.connect("builder-inited", lambda _: write_answer_page(HERE / "commands"))
    app.connect("builder-inited", lambda _: write_papers_page(HERE / "commands"))
    app.connect("builder-inited", lambda _: write_reference_pages(HERE / "reference"))
