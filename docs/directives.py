"""Directives: ``{run}``, a block with what it printed and drew; ``{thumbnails}`` of a gallery."""

from __future__ import annotations

import os
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from runs import KEPT, LINES, blocks_of, kept, name_of, run_blocks, shown


class Run(Directive):
    """A block that was run, with what it printed and drew."""

    has_content = True
    required_arguments = 1
    option_spec = {  # noqa: RUF012
        "lines": directives.nonnegative_int,
        "varies": directives.unchanged,
        "alt": directives.unchanged,
        "quiet": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """The block, its output unless that is ``quiet``, its pictures."""
        environ = self.state.document.settings.env
        page = Path(environ.doc2path(environ.docname))
        place = KEPT / name_of(page)
        environ.note_dependency(str(place / "ran.json"))
        number = environ.temp_data["runs"] = environ.temp_data.get("runs", -1) + 1
        block = self.arguments[0], "\n".join(self.content) + "\n"
        blocks = blocks_of(page)
        if number >= len(blocks) or blocks[number][1].rstrip() != block[1].rstrip():
            raise self.error(f"block {number} of {page} is not what was run: {block[1]}")
        ran = kept(name_of(page), blocks, run_blocks)[number]
        text = shown(ran.printed, self.options.get("lines", LINES), self.options.get("varies", ""))
        made: list[nodes.Node] = [_literal(block[1].rstrip(), self.arguments[0], "ran")]
        if text and "quiet" not in self.options:
            made.append(_literal(text, "text", "printed"))
        for name in ran.pictures:
            file = os.path.relpath(place / name, page.parent)
            made.append(nodes.image(uri=file, alt=self.options.get("alt", "")))
        if ran.pictures and not self.options.get("alt"):
            raise self.error(f"a picture needs an :alt: {block[1]}")
        return made


class Thumbnails(Directive):
    """The pictures of the pages beside this one, small; each leads to its page."""

    def run(self) -> list[nodes.Node]:
        """Links in the order of the pages' names."""
        environ = self.state.document.settings.env
        here = Path(environ.doc2path(environ.docname))
        frame = nodes.container(classes=["thumbnails"])
        for page in sorted(here.parent.glob("*.md")):
            place, blocks = KEPT / name_of(page), blocks_of(page)
            environ.note_dependency(str(place / "ran.json"))
            for ran in kept(name_of(page), blocks, run_blocks) if blocks else []:
                for name in ran.pictures:
                    file = os.path.relpath(place / name, here.parent)
                    what = Path(name).stem.partition("_")[2].replace("_", " ")
                    link = nodes.reference("", "", refuri=f"{page.stem}.html", internal=True)
                    link += nodes.image(uri=file, alt=f"{what}, of {page.stem}")
                    frame += nodes.paragraph("", "", link)
        return [frame]


def _literal(text: str, language: str, kind: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language=language, classes=[kind])
