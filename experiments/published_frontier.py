"""N = 1024, d = 4: the published frontier against ours.

Every published design is a recipe that is built, scored exactly and compared with the frontier
that one run of the finder returns. Source of the published rows: Zhao et al. (arXiv 2202.03356),
table of the 1024-node, degree-4 frontier.

    python experiments/published_frontier.py [--quick] [--out DIR]

writes figures/published_frontier.csv and .png; --quick runs N = 64.
"""

from __future__ import annotations

from reporting import Report, parse_arguments, publish

from ocs_codesign import Frontier, frontier
from ocs_codesign.faces import frontier_figure

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


def main() -> None:
    """Run, print and write."""
    arguments = parse_arguments(__doc__)
    answer = frontier(64 if arguments.quick else 1024, 4)
    figure = frontier_figure(answer)
    publish(Report("published_frontier", FIELDS, rows(answer), figure), arguments)


if __name__ == "__main__":
    main()
