"""What collectives with several configurations take, and from when on changing circuits pays."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ocs_codesign.quantities import exact_time
from ocs_codesign.reconfigure.ranges import OpenRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.cost import Cost, CostModel


def break_even_delta_s(
    static: Iterable[Cost],
    switched: Cost,
    model: CostModel,
    message_bytes: Fraction | float,
) -> Fraction:
    """The dead time below which ``switched`` is faster than all of ``static``; never if negative.

    All of ``static`` have fewer configurations; whether the start is cold is the same to all.
    Raises ValueError if one has not, or for a message that is negative or not finite.

    >>> from ocs_codesign.cost import Cost, CostModel
    >>> ring, direct = Cost(7, Fraction(7, 2)), Cost(7, Fraction(7, 8), 7)
    >>> model = CostModel(0, 1e9)
    >>> break_even_delta_s([ring], direct, model, 8e6)
    Fraction(7, 2000)
    """
    own = switched.time_s(model, message_bytes)
    deltas = []
    for other in static:
        more = switched.num_configurations - other.num_configurations
        if more < 1:
            raise ValueError(
                f"{switched.num_configurations} configurations against "
                f"{other.num_configurations}: only more of them have a break-even dead time"
            )
        deltas.append((other.time_s(model, message_bytes) - own) / more)
    if not deltas:
        raise ValueError("there is nothing to compare with: at least one other cost is needed")
    return min(deltas)


def paying_messages(
    static: Iterable[Cost],
    switched: Cost,
    model: CostModel,
    delta_s: Fraction | float,
) -> OpenRange | None:
    """Messages for which ``switched`` is faster than all of ``static``; None if there are none.

    Raises ValueError for a dead time that is negative or not finite.

    >>> from ocs_codesign.cost import Cost, CostModel
    >>> ring, direct = Cost(7, Fraction(7, 2)), Cost(7, Fraction(7, 8), 7)
    >>> static, switched = [ring], direct
    >>> found = paying_messages(static, switched, CostModel(0, 1e9), 10e-6)
    >>> float(found.begin), found.end
    (22857.14285714286, None)
    """
    delta = exact_time(delta_s, "delta_s")
    begin, end = Fraction(0), None
    for other in static:
        # Faster where the time lost in steps and dead times is less than rate * M.
        lost = model.alpha_s * (switched.steps - other.steps)
        lost += delta * (switched.num_configurations - other.num_configurations)
        rate = (other.t_b - switched.t_b) / model.node_bandwidth_Bps
        if rate > 0:
            begin = max(begin, lost / rate)
        elif lost >= 0:
            return None
        elif rate < 0:
            end = lost / rate if end is None else min(end, lost / rate)
    return OpenRange(begin, end) if end is None or begin < end else None
