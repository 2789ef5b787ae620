"""What people see: the command line, pictures, notebooks and pages.

A command in cli/ reads options, asks one package below and hands the answer to answers/, which says
it as sections for the terminal and as JSON; pictures/ draws it, web/ explores it and reports on a
bundle, examples/ has the files that commands write as a start. Nothing below imports this package.

Read cli (the table of commands) and cli.cost, then answers.sections and pictures.drawing.

>>> from ocs_codesign.faces.cli import main
>>> main(["--version"])
ocs-codesign 0.1.0
0
"""

from __future__ import annotations

from ocs_codesign.core.registry import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "pictures": "draw_frontier frontier_figure",
        "pictures.jobs": "draw_changes draw_job",
        "pictures.network": "draw_network",
        "pictures.simulation": "draw_transfers",
        "web.report.report": "write_bundle",
    },
)
