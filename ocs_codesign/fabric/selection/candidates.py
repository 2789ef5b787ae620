"""Candidates of a selection: the designs that a fabric of N hosts with d ports could hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.fabric.embed.embedding import embed
from ocs_codesign.fabric.infeasible import InfeasibleError
from ocs_codesign.question import Question
from ocs_codesign.reconfigure.hold.options import design_option, serving_options
from ocs_codesign.search.joint import designs_serving

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from ocs_codesign.collective import Collective
    from ocs_codesign.fabric.description import Fabric
    from ocs_codesign.reconfigure.hold.options import FabricOption
    from ocs_codesign.search.pareto import Frontier


def fabric_question(fabric: Fabric) -> Question:
    """The working hosts are nodes and their ports the degree; two-way circuits ask for two ways."""
    models = {fabric.port_model(plane) for plane in range(fabric.num_planes)}
    both = all(model.is_bidirectional for model in models)
    return Question(fabric.num_working_hosts, fabric.num_ports_per_host, both)


def known_options(
    fabric: Fabric,
    collectives: Collection[Collective],
    on_progress: Callable[[str, int, int], None] | None = None,
    catalogue: str | Path | None = None,
) -> tuple[list[FabricOption], Frontier]:
    """What serves some collectives best on a fabric, ring and torus, and all that was compared.

    Where none of the best fits the fabric, all that are known join. Raises ValueError if nothing is
    known for the fabric's size, or nothing could be solved.
    """
    question = fabric_question(fabric)
    size = f"{question.num_nodes} working hosts with {question.degree} ports"
    if not 1 <= question.degree < question.num_nodes:
        raise ValueError(f"the fabric has {size}: no design has as many ports as nodes")
    serving = designs_serving(question, collectives, on_progress, catalogue=catalogue)
    if not serving.looked_at:
        raise ValueError(
            f"no design is known for the fabric's {size}"
            + " and links in both directions" * question.bidirectional
            + ": name some with --designs"
        )
    if not serving.candidates:
        raise ValueError(
            f"the all-to-all of all {len(serving.looked_at)} designs for the fabric is too large "
            "to solve in passing: name some with --designs"
        )
    options = serving_options(serving, collectives)
    best = [design_option(design, collectives) for design in serving.candidates]
    if not any(_fits(fabric, option) for option in best):
        rest = (design for design in serving.dominated if design.measured)
        options = [*best, *(design_option(design, collectives) for design in rest)]
    return options, serving


def _fits(fabric: Fabric, option: FabricOption) -> bool:
    if option.topology is None:
        return False
    try:
        embed(fabric, option.topology, name=option.name)
    except InfeasibleError:
        return False
    return True
