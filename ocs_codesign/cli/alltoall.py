"""What ``cost --collective alltoall`` says: the throughput of one topology, with its proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.cli.output import emit, show_facts
from ocs_codesign.cli.progress import progress
from ocs_codesign.collective import Collective

if TYPE_CHECKING:
    from fractions import Fraction

    from rich.console import Console

    from ocs_codesign.cli.options import SolverChoice, Source
    from ocs_codesign.schedulers.alltoall.result import Throughput

COLLECTIVE = Collective.ALLTOALL.name


def cost_of_alltoall(source: Source, choice: SolverChoice, json_path: str | None) -> None:
    """Find the best routing when messages may split over paths, and say how good it is."""
    from ocs_codesign.bounds import bound
    from ocs_codesign.schedulers.alltoall.throughput import throughput

    topology = source.topology()
    with progress("Solving the all-to-all"), choice.solving() as options:
        found = throughput(topology, options)
    least = bound(topology.num_nodes, topology.degree, COLLECTIVE).t_b
    answer = {
        "recipe": source.recipe_text,
        "label": None if source.recipe is None else source.recipe.label(),
        "graph": source.graph_name,
        "nodes": topology.num_nodes,
        "degree": topology.degree,
        "collective": COLLECTIVE,
        "t_b": str(found.time),
        "t_b_float": float(found.time),
        "proven_bound": str(found.bound),
        "gap": float(found.gap),
        "optimal": found.is_optimal,
        "method": found.method,
        "bound": str(least),
        "over_bound": float(found.time / least),
        **_certificate(found),
    }
    emit(answer, json_path, lambda console: _show(console, answer, found, least))


def _certificate(found: Throughput) -> dict[str, Any]:
    """Prices and loads, one a link orbit: the bottleneck is where the price is not 0."""
    speeds = found.quotient.speed.tolist()
    use = [
        load / speed * found.quotient.scale / found.time
        for load, speed in zip(found.loads, speeds, strict=True)
    ]
    return {
        "num_link_orbits": found.quotient.num_orbits,
        "prices": found.prices.tolist(),
        "link_use": [float(share) for share in use],
    }


def _show(console: Console, answer: dict[str, Any], found: Throughput, least: Fraction) -> None:
    use = answer["link_use"]
    gap = "proven optimal" if found.is_optimal else f"at most {answer['gap']:.2g} above the least"
    show_facts(
        console,
        [
            ("recipe", answer["recipe"]),
            ("label", answer["label"]),
            ("graph", answer["graph"]),
            ("nodes, degree", f"{answer['nodes']}, {answer['degree']}"),
            ("collective", f"{COLLECTIVE}, messages may split over paths"),
            ("t_b", f"{_number(found.time)}, {gap}"),
            ("proven bound", _number(found.bound)),
            ("bound", f"{_number(least)} (no topology of this size can beat it)"),
            ("over the bound", f"{answer['over_bound']:.4f} times"),
            ("link use", f"{min(use):.1%} to {max(use):.1%}, mean {sum(use) / len(use):.1%}"),
            ("bottleneck", _bottleneck(found)),
            ("found by", found.method),
        ],
    )


def _bottleneck(found: Throughput) -> str:
    """How many links a faster all-to-all would need more of.

    They have a price and are busy for all of the proven bound; at an optimum a price is enough.
    """
    whole = found.quotient
    loads = zip(found.loads, found.prices.tolist(), whole.speed.tolist(), strict=True)
    is_tight = [
        price > 0 and whole.scale * load / speed >= found.bound for load, price, speed in loads
    ]
    tight = sum(is_tight[orbit] for orbit in whole.link_orbit.tolist())
    return f"{tight} of {whole.topology.num_links} links"


def _number(value: Fraction) -> str:
    """A fraction while it is short, with its decimal."""
    text = str(value)
    return f"{text} ({float(value):.6g})" if len(text) <= 24 else in_decimals(value)


def in_decimals(value: Fraction) -> str:
    """A fraction that is too long to read."""
    return f"{float(value):.9g}"
