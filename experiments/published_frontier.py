"""N = 1024, d = 4: the published frontier against ours.

Every published design is a recipe that is built, scored exactly and compared with the frontier
that one run of the finder returns. Source of the published rows: Zhao et al. (arXiv 2202.03356),
table of the 1024-node, degree-4 frontier.

    python experiments/published_frontier.py [--quick]

writes figures/published_frontier.csv and .png; --quick runs N = 64 and writes nothing.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path

from ocs_codesign import Frontier, __version__, frontier, frontier_figure
from ocs_codesign.plot import save_figure

FIGURES = Path(__file__).resolve().parent.parent / "figures"
FIELDS = ("set", "recipe", "label", "steps", "t_b", "t_b_float", "dominated_by")


def rows(answer: Frontier) -> list[dict[str, object]]:
    """The frontier's candidates, then the published designs with what dominates them."""
    table = []
    for name, candidates in (("frontier", answer.candidates), ("published", answer.published)):
        for candidate in candidates:
            better = answer.dominator(candidate.cost)
            dominated = name == "published" and better is not None and better != candidate
            table.append(
                {
                    "set": name,
                    "recipe": repr(candidate.recipe),
                    "label": candidate.recipe.label(),
                    "steps": candidate.cost.steps,
                    "t_b": str(candidate.cost.t_b),
                    "t_b_float": f"{float(candidate.cost.t_b):.6f}",
                    "dominated_by": repr(better.recipe) if dominated and better else "",
                }
            )
    return table


def as_csv(table: list[dict[str, object]], command: str) -> str:
    """The table with the command and version that made it."""
    text = io.StringIO()
    text.write(f"# {command}, ocs_codesign {__version__}\n")
    writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="N = 64, nothing written")
    quick = parser.parse_args().quick
    answer = frontier(64 if quick else 1024, 4)
    text = as_csv(rows(answer), "python experiments/published_frontier.py")
    sys.stdout.write(text)
    if not quick:
        (FIGURES / "published_frontier.csv").write_text(text, encoding="utf-8")
        save_figure(frontier_figure(answer), FIGURES / "published_frontier.png")


if __name__ == "__main__":
    main()
