"""Servers joined by a design that has the ports of all their accelerators, other ones on each rail.

Rails that are alike give a server as many neighbours as an accelerator has ports. Where rails have
other circuits each, a server has as many as all its accelerators have together, and messages go
to the accelerator whose port leads on: they change rail inside servers, for a time that counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, final

from ocs_codesign.collective import Collective
from ocs_codesign.cost import Cost
from ocs_codesign.workload.codesign.optics import least_cost, seconds_of

if TYPE_CHECKING:
    from ocs_codesign.cost import CostModel
    from ocs_codesign.reconfigure.hold.options import FabricOption
    from ocs_codesign.workload.codesign.cluster import JobCluster
    from ocs_codesign.workload.codesign.optics import Seconds
    from ocs_codesign.workload.codesign.placements import Span


@final
@dataclass(frozen=True, slots=True)
class AcrossRails:
    """One span on a design of servers; without a design it costs what none is below.

    A byte that crosses a circuit is moved inside a server before it and after its last one, so that
    an accelerator sends at most twice as much inside as outside. Between these moves an exchange
    needs no first one if its group holds whole servers: it begins inside anyway.
    """

    cluster: JobCluster
    num_ports: int
    option: FabricOption | None = None

    def rate_key(self, span: Span, *, sends: bool = False) -> tuple[object, ...] | None:
        """The servers, the accelerators inside and the ports, as long as no design sends."""
        if self.option is not None and not sends:
            return None
        return "across", span.outside, span.inside, self.num_ports

    def collective_s(self, span: Span, collective: str, size_bytes: Fraction) -> Seconds:
        """The time of the design, or the bound, and of the moves inside."""
        option = self.option
        if option is None:
            model = server_model(self.cluster, self.num_ports)
            cost = least_cost(collective, span.outside, self.num_ports)
        else:
            model = option_model(self.cluster, option)
            found = option.fastest(Collective.parse(collective), model, size_bytes)[0]
            if found is None:
                raise ValueError(f"{option.name} has no cost of {collective}")
            cost = found
        inside = self.cluster.scale_up
        if inside is None:
            raise ValueError("servers of one accelerator have one rail")
        latency, work = seconds_of(cost, model, size_bytes)
        moved = seconds_of(self._moves(span, collective, cost), inside, size_bytes)
        return latency + moved[0], work + moved[1]

    def _moves(self, span: Span, collective: str, cost: Cost) -> Cost:
        if collective != Collective.ALLTOALL.name:
            return Cost(cost.steps + 1 + (collective == Collective.ALLREDUCE.name), 2 * cost.t_b)
        if span.inside == self.cluster.accelerators_a_server:
            return cost
        return Cost(cost.steps + 1, 2 * cost.t_b)

    def send_s(self, span: Span, size_bytes: int) -> Seconds:
        """Nothing: stages are inside servers."""
        del span, size_bytes
        return Fraction(0), Fraction(0)


def server_model(cluster: JobCluster, num_ports: int) -> CostModel:
    """What messages cost by what an accelerator sends, if its server has so many ports."""
    return cluster.ports_model(Fraction(num_ports, cluster.accelerators_a_server))


def option_model(cluster: JobCluster, option: FabricOption) -> CostModel:
    """The same of the ports that a design uses."""
    if option.recipe is None:
        raise ValueError(f"{option.name} has no recipe")
    return server_model(cluster, option.recipe.degree)
