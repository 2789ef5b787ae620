"""What ``frontier`` says of all-to-all: alone, or of topologies that serve allgather as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.cli.alltoall import COLLECTIVE, in_decimals
from ocs_codesign.cli.output import emit, show_table
from ocs_codesign.cli.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.finder.joint import JointCandidate, JointFrontier

_UNSOLVED_ROWS = 3


def frontier_of_alltoall(
    num_nodes: int,
    degree: int,
    *,
    with_allgather: bool,
    bidirectional: bool,
    json_path: str | None,
) -> None:
    """Search, print and write the joint frontier."""
    from ocs_codesign.finder import joint_frontier

    with progress("Searching") as shown:
        answer = joint_frontier(
            num_nodes,
            degree,
            with_allgather=with_allgather,
            bidirectional=bidirectional,
            on_progress=shown.tell_phase,
        )
    emit(joint_json(answer), json_path, lambda console: _show(console, answer))


def joint_json(answer: JointFrontier) -> dict[str, Any]:
    """The JSON form of a joint frontier."""
    return {
        "nodes": answer.question.num_nodes,
        "degree": answer.question.degree,
        "collective": COLLECTIVE,
        "with_allgather": answer.with_allgather,
        "candidates": [_entry(answer, one) for one in answer.candidates],
        "bound": str(answer.bound),
        "dominated": [_entry(answer, one) for one in answer.dominated],
        "unsolved": [_entry(answer, one) for one in answer.unsolved],
    }


def _entry(answer: JointFrontier, one: JointCandidate) -> dict[str, Any]:
    found = one.alltoall
    value: dict[str, Any] = {
        "recipe": repr(one.recipe),
        "label": one.recipe.label(),
        "diameter": one.diameter,
        "allgather": {"steps": one.candidate.cost.steps, "t_b": str(one.candidate.cost.t_b)},
        "hop_bound": str(one.hop_bound),
        "alltoall_t_b": None,
    }
    if found is not None:
        value |= {
            "alltoall_t_b": str(found.time),
            "alltoall_t_b_float": float(found.time),
            "proven_bound": str(found.bound),
            "gap": float(found.gap),
            "optimal": found.is_optimal,
            "over_bound": float(found.time / answer.bound),
        }
    return value


def _show(console: Console, answer: JointFrontier) -> None:
    question = answer.question
    what = "allgather and all-to-all" if answer.with_allgather else "all-to-all"
    many = len(answer.candidates) != 1
    console.print(
        f"{question.num_nodes} nodes of degree {question.degree}, {what}: "
        f"{len(answer.candidates)} candidate{'s' * many} on the frontier, "
        f"{len(answer.dominated)} more solved"
    )
    columns = ["steps", "allgather t_b", "all-to-all t_b", "decimal", "over bound"]
    rows = []
    for one in answer.candidates:
        if one.alltoall is None:
            continue
        steps = one.candidate.cost.steps if answer.with_allgather else one.diameter
        time = one.alltoall.time
        proof = "exact" if one.alltoall.is_optimal else f"gap {float(one.alltoall.gap):.1g}"
        rows.append(
            [
                str(steps),
                str(one.candidate.cost.t_b),
                in_decimals(time) if len(str(time)) > 24 else str(time),
                f"{float(time):.6g}",
                f"{float(time / answer.bound):.4f}",
                proof,
                one.recipe.label(),
                repr(one.recipe),
            ]
        )
    show_table(console, [*columns, "proof", "label", "recipe"], rows, len(columns), texts=2)
    console.print(
        f"All-to-all t_b of no topology of this size can be below {answer.bound} "
        f"({float(answer.bound):.6g}); messages may split over paths."
    )
    if answer.unsolved:
        names = ", ".join(
            f"{one.recipe.label()} at least {float(one.hop_bound / answer.bound):.4f} of it"
            for one in answer.unsolved[:_UNSOLVED_ROWS]
        )
        more = len(answer.unsolved) - _UNSOLVED_ROWS
        console.print(
            f"Too large to solve in a search ({len(answer.unsolved)}): {names}"
            + (f" and {more} more." if more > 0 else ".")
        )
