"""Fabric files for the tests: a small valid one, and how two fabrics are compared."""

from __future__ import annotations

import copy
import json

MAKE = {
    "name": "make",
    "technology": "piezo",
    "port_model": "P1",
    "ports": 8,
    "insertion_loss_db": 2,
    "delta": "20us",
}
LAB = {
    "name": "lab",
    "hosts": {"count": 8},
    "planes": [
        {"count": 2, "switches": [{"profile": "polatis-384", "ports": 8}]},
        {"switches": [{"profile": MAKE}]},
    ],
    "alpha": "10us",
    "node_bandwidth": "300Gbps",
    "losses": {"connector_db": 0.25, "budget_db": "DR4"},
}
_ROTOR = {"profile": "rotor-128", "ports": 8, "states": "rotations"}
ROTORS = {**LAB, "planes": [{"count": 2, "switches": [_ROTOR]}, {"switches": [{**_ROTOR}]}]}

INLINE = {**MAKE, "port_model": "P3", "ports": 16, "insertion_loss_db": 1, "delta": "5ms"}


def lab(*path, value=None, drop=False, base=LAB):
    """The file as JSON, which is YAML too, with the value at a path put in or dropped."""
    made = copy.deepcopy(base)
    at = made
    for key in path[:-1]:
        at = at[key]
    if drop:
        del at[path[-1]]
    elif path:
        at[path[-1]] = value
    return json.dumps(made).encode()


def content(fabric):
    """All that a fabric holds, as a value to compare."""
    switches = [
        (
            switch.name,
            switch.plane,
            switch.profile,
            switch.num_ports,
            switch.num_spares,
            None if switch.states is None else switch.states.tolist(),
        )
        for switch in fabric.switches
    ]
    return (
        fabric.name,
        fabric.hosts,
        fabric.num_spare_hosts,
        switches,
        fabric.cost_model,
        fabric.loss_budget_db,
        fabric.connector_loss_db,
        fabric.circulator_loss_db,
    )
