"""What ``survive`` shows: the worst loss of every kind, all losses, and the work of a repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.answers.texts import cost_json, cost_text, t_b_text
from ocs_codesign.cli.output import show_facts, show_table

if TYPE_CHECKING:
    from rich.console import Console

    from ocs_codesign.fabric.repair import CrossConnect, Repair
    from ocs_codesign.fabric.survivability import Loss, Survivability
    from ocs_codesign.fabric.survivors import AllToAllTime, Remainder


def survivability_json(found: Survivability) -> dict[str, Any]:
    """The JSON form of all losses and of the worst of every kind."""
    return {
        "configuration": found.configuration.name,
        "fabric": found.configuration.cabling.fabric.name,
        "collective": found.collective.name,
        "unit": "M/B, B the egress of a node of the intact topology",
        "intact": _remainder_json(found.intact),
        "worst": [
            {
                "kind": worst.kind.value,
                "losses": worst.num_losses,
                "connected": worst.num_connected,
                "name": worst.loss.name,
                "alike": worst.num_alike,
                "left": _remainder_json(worst.loss.left),
            }
            for worst in found.worst()
        ],
        "losses": [_loss_json(loss) for loss in found.losses],
        "measured": found.num_measured,
    }


def _loss_json(loss: Loss) -> dict[str, Any]:
    lost = {"kind": loss.kind.value, "name": loss.name, "lost_links": loss.num_lost_links}
    return {**lost, **_remainder_json(loss.left)}


def _remainder_json(left: Remainder) -> dict[str, Any]:
    return {
        "nodes": left.num_nodes,
        "links": left.num_links,
        "connected": left.is_connected,
        "components": left.num_components,
        "largest_component": left.largest_component,
        "diameter": left.diameter,
        "cost": None if left.cost is None else cost_json(left.cost),
        "alltoall": None if left.alltoall is None else _alltoall_json(left.alltoall),
    }


def _alltoall_json(alltoall: AllToAllTime) -> dict[str, Any]:
    time = None if alltoall.time is None else str(alltoall.time)
    return {"time": time, "bound": str(alltoall.bound), "optimal": alltoall.is_optimal}


def show_survivability(console: Console, found: Survivability) -> None:
    """The topology as it is, and the worst loss of every kind."""
    fabric = found.configuration.cabling.fabric
    intact = found.intact
    show_facts(
        console,
        [
            ("fabric", fabric.name),
            ("nodes, links", f"{intact.num_nodes}, {intact.num_links}"),
            (f"{found.collective.name}, intact", _cost(intact)),
            ("alltoall, intact", _alltoall(intact)),
            (
                "losses",
                f"{len(found.losses)}, {found.num_measured} measured, each other equal to one",
            ),
        ],
    )
    console.print()
    columns = ("losses", "connected", "kind", "components", "diameter", "cost", "alltoall", "worst")
    rows = []
    for worst in found.worst():
        left = worst.loss.left
        alike = f" and {worst.num_alike - 1} alike" if worst.num_alike > 1 else ""
        rows.append(
            (
                str(worst.num_losses),
                str(worst.num_connected),
                worst.kind.value,
                f"{left.num_components}, largest {left.largest_component}",
                "-" if left.diameter is None else str(left.diameter),
                _cost(left),
                _alltoall(left),
                f"{worst.loss.name}{alike}",
            )
        )
    show_table(console, columns, rows, numbers=2, texts=1)


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


def repair_json(made: Repair) -> dict[str, Any]:
    """The JSON form of a repair: hosts, strands and cross-connects in the order of the work."""
    return {
        "repaired": True,
        "configuration": made.configuration.name,
        "hosts": [
            {"node": one.node, "before": one.before, "after": one.after} for one in made.hosts
        ],
        "removed": [_cross_connect(one) for one in made.removed],
        "moves": [
            {
                "strand": move.what,
                "before": None if move.before is None else str(move.before),
                "after": None if move.after is None else str(move.after),
            }
            for move in made.moves
        ],
        "made": [_cross_connect(one) for one in made.made],
    }


def _cross_connect(one: CrossConnect) -> dict[str, Any]:
    return {"switch": one.switch, "a_port": one.a_port, "b_port": one.b_port}


def show_repair(console: Console, made: Repair) -> None:
    """The nodes, strands and cross-connects that change."""
    show_facts(
        console,
        [
            ("nodes that move", len(made.hosts)),
            ("strands to move", len(made.moves)),
            ("cross-connects", f"{len(made.removed)} taken down, {len(made.made)} set up"),
            ("light", "followed: it makes the topology"),
        ],
    )
    rows = [("node", f"{one.node}", one.before, one.after) for one in made.hosts]
    rows += [("take down", one.switch, *_ends(made, one), "-") for one in made.removed]
    rows += [
        ("move", move.what, str(move.before or "-"), str(move.after or "-")) for move in made.moves
    ]
    rows += [("set up", one.switch, "-", *_ends(made, one)) for one in made.made]
    if rows:
        console.print()
        show_table(console, ("do", "what", "before", "after"), rows)


def _ends(made: Repair, one: CrossConnect) -> tuple[str]:
    """A cross-connect as in 1A-2B; both ports are A ports where a switch has no sides."""
    switches = made.configuration.cabling.fabric.switches
    (switch,) = (switch for switch in switches if switch.name == one.switch)
    far = "B" if switch.profile.port_model.has_b_side else "A"
    return (f"{one.a_port}A-{one.b_port}{far}",)
