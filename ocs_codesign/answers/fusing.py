"""Fused operators as an answer: what fusing saves, by size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.answers.sections import Facts, Table
from ocs_codesign.quantities import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.workload.fused import FusedOperator


@final
@dataclass(frozen=True, slots=True)
class FusingAnswer:
    """An operator at several sizes."""

    text: str
    num_ranks: int
    operators: tuple[tuple[int, FusedOperator], ...]


def fusing_json(answer: FusingAnswer) -> dict[str, Any]:
    """The JSON form: times of every size."""
    return {
        "operator": answer.text,
        "num_ranks": answer.num_ranks,
        "sizes": [
            {
                "size": size,
                "num_workgroups": each.num_workgroups,
                "num_waves": each.num_waves,
                "num_remote": each.num_remote,
                "compute_s": each.compute_s,
                "unfused_s": each.unfused_s,
                "fused_s": each.fused_s(),
                "fused_local_first_s": local_first_s(each),
                "saved": each.saved,
            }
            for size, each in answer.operators
        ],
    }


def local_first_s(operator: FusedOperator) -> Any:
    """Seconds of the fused kernel whose remote workgroups go last."""
    local = operator.num_workgroups - operator.num_remote
    return operator.fused_s([False] * local + [True] * operator.num_remote)


def fusing_sections(answer: FusingAnswer) -> Iterator[Section]:
    """A row a size, and from which on fusing pays."""
    yield Facts(("operator", answer.text), ("ranks", answer.num_ranks))
    yield ""
    rows = [
        (
            str(size),
            str(each.num_workgroups),
            str(each.num_waves),
            format_time(each.compute_s),
            format_time(each.unfused_s),
            format_time(local_first_s(each)),
            format_time(each.fused_s()),
            f"{float(100 * each.saved):.1f} %",
        )
        for size, each in answer.operators
    ]
    columns = (
        *("size", "workgroups", "waves", "computes", "not fused"),
        *("fused, local first", "fused, remote first", "saved"),
    )
    yield Table(columns, rows, numbers=len(columns))
    paying = [size for size, each in answer.operators if each.saved > 0]
    if len(paying) == len(answer.operators):
        yield "\nFusing pays at all of these sizes."
    elif paying:
        yield f"\nFusing pays at sizes {', '.join(map(str, paying))}."
    else:
        yield "\nFusing pays at none of these sizes."
