"""The answer of ``place``: the order of ranks, what its classes take, and what they take today."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.quantities import format_time, unit_of_bandwidth
from ocs_codesign.faces.answers.declared import made
from ocs_codesign.faces.answers.sections import Facts, Table
from ocs_codesign.faces.answers.texts import t_b_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.faces.answers.sections import Section
    from ocs_codesign.jobs.rank_orders import RankOrder

_SHOWN_RANKS = 32


def _class_rows(_name: str, _network: str, found: RankOrder) -> list[dict[str, Any]]:
    rows = zip(found.traffic.names, found.times, found.given_times, strict=True)
    return [
        {"name": name, "time": str(time), "given_time": str(given)} for name, time, given in rows
    ]


made(
    "place.order",
    hosts=lambda *values: [values[2].network.name(host) for host in values[2].host.tolist()],
    order=lambda *values: values[2].host,
    classes=_class_rows,
)


def order_sections(name: str, network: str, found: RankOrder) -> Iterator[Section]:
    """What the order takes beside today's and the bound; the order."""
    unit = found.network.unit

    def told(value: Fraction) -> str:
        return format_time(value / unit_of_bandwidth(unit)) if unit else t_b_text(value)

    known = (
        "no order takes less" if found.is_optimal else f"none takes less than {told(found.bound)}"
    )
    gain = found.given / found.value if found.value else Fraction(1)
    names = [found.network.name(host) for host in found.host.tolist()]
    more = f" and {len(names) - _SHOWN_RANKS} more" * (len(names) > _SHOWN_RANKS)
    same = found.host.tolist() == list(range(len(names)))
    yield Facts(
        ("job", f"{name}: {found.traffic.num_ranks} ranks"),
        ("network", network),
        ("today", f"{told(found.given)}, rank r on host r"),
        ("best", f"{told(found.value)}, {float(gain):.4g} times as fast: {known} ({found.proof})"),
        ("ranks on", "the same hosts as today" if same else ", ".join(names[:_SHOWN_RANKS]) + more),
    )
    yield ""
    rows = [
        (told(time), told(given), one)
        for one, time, given in zip(
            found.traffic.names, found.times, found.given_times, strict=True
        )
    ]
    yield Table(("takes", "today", "class"), rows, numbers=2)
