"""A fabric file to begin with: every key in use and what it means, for any known profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.fabric.files.fabric_files import time_text
from ocs_codesign.fabric.files.schema import BUDGETS_DB, MAX_HOSTS, MAX_PLANES
from ocs_codesign.fabric.profiles import profile_named

if TYPE_CHECKING:
    from ocs_codesign.fabric.description import SwitchProfile


CONNECTOR_DB, CIRCULATOR_DB = 0.25, 0.5

_TEXT = """\
# A fabric: hosts, planes of optical circuit switches, and what time and light cost on them.
# 'ocs-codesign fabric check FILE' checks it; 'ocs-codesign fabric schema' documents every key.
version: 1
name: example-{hosts}

hosts:
  count: {hosts}  # spare ones included; or write all names: [alpha, beta, ...]
  pattern: '{pattern}'
  first: 0  # the number of the first host
  spares: 0  # so many of them, the last ones, are spare

planes:  # every host has {ports_a_host} in every plane, or those of its key hosts
- count: {planes}  # so many equal planes
  switches:
  - profile: {known.name}  # {known.technology}; see 'ocs-codesign fabric profiles'
    count: {switches}  # so many equal switches a plane
    ports: {ports}  # in service, {side}, spare ones included; the profile has {known.num_ports}
    spares: 0  # so many ports{a_side}, the last ones, are kept free
    port_model: {known.port_model.value}  # simplex, two-sided, matching or restricted
    delta: {delta}  # dead time of a change; leave it out for the profile's
    delta_per_circuit: {delta_per_circuit}  # and for every circuit changed
{states}
alpha: 10us  # time of a communication step, without its bytes
node_bandwidth: 400Gbps  # egress of a host over all its ports; or port_bandwidth of one of them

losses:  # two connectors, the switches on the way and, of two-way circuits, two circulators
  connector_db: {connector_db}
  circulator_db: {circulator_db}
  budget_db: {budget}  # a number, or the class DR4 (3 dB) or FR4 (4 dB)

# servers:  # what hosts are inside, for 'ocs-codesign cluster'
#   gpus: 8
#   switch: 450GB/s  # of every GPU; or mesh: 50GB/s between any two, or network: mi250(1)
#   hosts: servers  # or nics: as many in a row as a server has, with ports in all planes
#   nics:
#   - planes: {all_planes}  # in which it has the port of its server
#     gpus: switch  # what it hangs on: the inner switch, or a list of GPUs

# prices: {{nic: 1200, transceiver: 500, circulator: 90, fibre: 12}}  # your own, in US dollars each
# failed_ports: ['p0-s0:3{a}']  # known beforehand: they get no cable

reconfiguration:
  cold_start: true  # the first configuration has to be made and pays its dead time
  overlap: true  # a plane changes while the others send
  barrier: true  # a step begins when all of the step before has arrived
"""


_STATES = "    states: rotations  # all cyclic shifts, or rows of a B port for every A port\n"


def example_text(num_hosts: int = 64, num_planes: int = 4, profile: str = "polatis-384") -> str:
    """A commented YAML file of a fabric with so many hosts and planes of one switch profile.

    Raises ValueError for numbers out of range, a profile that is not known and hosts that are too
    few for its port model.

    >>> example_text(8, 2).splitlines()[3]
    'name: example-8'
    """
    for name, number, most in (("hosts", num_hosts, MAX_HOSTS), ("planes", num_planes, MAX_PLANES)):
        if not 1 <= number <= most:
            raise ValueError(f"{number} {name}: it must be from 1 to {most}")
    known = profile_named(profile)
    model = known.port_model
    if model.has_states and num_hosts < 2:
        raise ValueError(f"{num_hosts} host on {profile}: its states need at least 2")
    switches = -(-num_hosts // known.num_ports)
    return _TEXT.format(
        hosts=num_hosts,
        pattern=f"host{{:0{max(len(str(num_hosts - 1)), 2)}d}}",
        ports_a_host="a port" if model.ports_per_host == 1 else "two ports",
        planes=num_planes,
        all_planes=list(range(num_planes)),
        known=known,
        switches=switches,
        ports=-(-num_hosts // switches),
        side="a side" if model.has_b_side else "all of them",
        a_side=" a side" if model.has_b_side else "",
        a="A" if model.has_b_side else "",
        delta=time_text(known.change.fixed_s),
        delta_per_circuit=time_text(known.change.per_circuit_s),
        states=_STATES if model.has_states else "",
        connector_db=CONNECTOR_DB,
        circulator_db=CIRCULATOR_DB,
        budget=_budget(known),
    )


def _budget(profile: SwitchProfile) -> str:
    """The first class that a direct circuit keeps to, or what it loses."""
    loss_db = profile.circuit_loss_db(CONNECTOR_DB, CIRCULATOR_DB)
    return next((name for name, db in BUDGETS_DB.items() if loss_db <= db), f"{loss_db:g}")
