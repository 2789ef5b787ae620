"""What ``survive`` answers: the worst loss of every kind, all losses, and the work of a repair."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.sections import Facts, Table
from ocs_codesign.answers.texts import cost_json, cost_text, t_b_text
from ocs_codesign.fabric.wiring import cross_connect_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.answers.sections import Section
    from ocs_codesign.fabric.repairs.repair import Repair
    from ocs_codesign.fabric.survival.losses import Survivability
    from ocs_codesign.fabric.survival.remainder import Remainder


INVENTED = "chosen for this question; --bundle DIR looks at those that are deployed"


def survivability_json(survival: Survivability) -> dict[str, Any]:
    """The JSON form of all losses and of the worst of every kind."""
    return {
        "configuration": survival.configuration.name,
        "fabric": survival.configuration.cabling.fabric.name,
        "collective": survival.collective.name,
        "unit": "M/B, B the egress of a node of the intact topology",
        "intact": _remainder_json(survival.intact),
        "worst": [
            {
                "kind": worst.loss.kind.value,
                "losses": worst.num_losses,
                "connected": worst.num_connected,
                "name": worst.loss.name,
                "alike": worst.num_alike,
                "left": _remainder_json(worst.loss.left),
            }
            for worst in survival.worst()
        ],
        "losses": [
            {
                "kind": loss.kind.value,
                "name": loss.name,
                "lost_links": loss.num_lost_links,
                **_remainder_json(loss.left),
            }
            for loss in survival.losses
        ],
        "measured": survival.num_measured,
    }


def _remainder_json(left: Remainder) -> dict[str, Any]:
    alltoall = left.alltoall
    return {
        "nodes": left.num_nodes,
        "links": left.num_links,
        "connected": left.is_connected,
        "components": left.num_components,
        "largest_component": left.largest_component,
        "diameter": left.diameter,
        "cost": None if left.cost is None else cost_json(left.cost),
        "alltoall": None
        if alltoall is None
        else {
            "time": None if alltoall.time is None else str(alltoall.time),
            "bound": str(alltoall.bound),
            "optimal": alltoall.is_optimal,
        },
    }


def survivability_sections(survival: Survivability, *, deployed: bool) -> Iterator[Section]:
    """The topology as it is, and the worst loss of every kind."""
    intact = survival.intact
    measured = f"{survival.num_measured} measured, each other equal to one"
    yield Facts(
        ("fabric", survival.configuration.cabling.fabric.name),
        ("circuits", f"those of {survival.configuration.name}" if deployed else INVENTED),
        ("nodes, links", f"{intact.num_nodes}, {intact.num_links}"),
        (f"{survival.collective.name}, intact", _cost(intact)),
        ("alltoall, intact", _alltoall(intact)),
        ("losses", f"{len(survival.losses)}, {measured}"),
    )
    yield ""
    columns = ("losses", "connected", "kind", "components", "diameter", "cost", "alltoall", "worst")
    rows = []
    for worst in survival.worst():
        left = worst.loss.left
        alike = f" and {worst.num_alike - 1} alike" if worst.num_alike > 1 else ""
        rows.append(
            (
                str(worst.num_losses),
                str(worst.num_connected),
                worst.loss.kind.value,
                f"{left.num_components}, largest {left.largest_component}",
                "-" if left.diameter is None else str(left.diameter),
                _cost(left),
                _least_alltoall(left),
                f"{worst.loss.name}{alike}",
            )
        )
    yield Table(columns, rows, numbers=2, texts=1)


def _cost(left: Remainder) -> str:
    return "-" if left.cost is None else cost_text(left.cost)


def _alltoall(left: Remainder) -> str:
    if left.alltoall is None:
        return "-"
    if left.alltoall.time is None:
        return f"at least {t_b_text(left.alltoall.bound)} (bound by hops)"
    if left.alltoall.is_optimal:
        return t_b_text(left.alltoall.time)
    return f"{t_b_text(left.alltoall.time)}, at least {t_b_text(left.alltoall.bound)}"


def _least_alltoall(left: Remainder) -> str:
    """What is proven of the all-to-all: its time where that is the bound."""
    if left.alltoall is None:
        return "-"
    at_least = "" if left.alltoall.is_optimal else "at least "
    return f"{at_least}{float(left.alltoall.bound):.6g}"


def repair_json(repair: Repair) -> dict[str, Any]:
    """The JSON form of a repair: hosts, strands and cross-connects in the order of the work."""
    return {
        "repaired": True,
        "configuration": repair.configuration.name,
        "hosts": [asdict(host) for host in repair.hosts],
        "removed": [asdict(removed) for removed in repair.removed],
        "moves": [
            {
                "strand": move.what,
                "cable": move.cable,
                "before": None if move.before is None else str(move.before),
                "after": None if move.after is None else str(move.after),
            }
            for move in repair.moves
        ],
        "made": [asdict(made) for made in repair.made],
    }


def repair_sections(repair: Repair) -> Iterator[Section]:
    """The nodes, strands and cross-connects that change."""
    also = ", ".join(other.name for other in repair.others)
    yield Facts(
        ("configuration", repair.configuration.name),
        ("nodes that move", len(repair.hosts)),
        ("strands to move", len(repair.moves)),
        ("cross-connects", f"{len(repair.removed)} taken down, {len(repair.made)} set up"),
        ("light", "followed: it makes the topology"),
        ("repaired along", also or None),
    )
    has_b_side = repair.configuration.cabling.fabric.port_model(0).has_b_side
    down, up = (
        [
            (each.switch, cross_connect_name(each.a_port, each.b_port, has_b_side=has_b_side))
            for each in joined
        ]
        for joined in (repair.removed, repair.made)
    )
    rows = [
        *(("node", str(host.node), host.before, host.after) for host in repair.hosts),
        *(("take down", switch, name, "-") for switch, name in down),
        *(
            ("move", f"{move.cable} {move.what}", str(move.before or "-"), str(move.after or "-"))
            for move in repair.moves
        ),
        *(("set up", switch, "-", name) for switch, name in up),
    ]
    if rows:
        yield ""
        yield Table(("do", "what", "before", "after"), rows)
