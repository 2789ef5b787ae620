"""Following the light: what is wrong with cables or cross-connects is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from embed_samples import fabric, pairs_of, undirected

from ocs_codesign.fabric.description import PortModel
from ocs_codesign.fabric.embedding.embed import embed
from ocs_codesign.fabric.light import topology_of
from ocs_codesign.graphs.text import parse

MODELS = [PortModel.SIMPLEX, PortModel.TWO_SIDED, PortModel.MATCHING]


def ring_on(model, sizes=(6,), hosts=6, **options):
    ring = undirected(5, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])
    return embed(fabric(hosts, [list(sizes)] * 3, model), ring, **options).configuration


def staged():
    topology = parse("DirectedCirculant(8, (1, 2))").topology()
    return embed(fabric(8, [[4] * 6] * 2), topology).configuration


def changed(configuration, name, row, value):
    column = getattr(configuration, name).copy()
    column[row] = value
    return replace(configuration, **{name: column})


@pytest.mark.parametrize("model", MODELS)
def test_swapped_ports_make_another_topology(model):
    configuration = ring_on(model)
    b_port, switch = configuration.b_port.copy(), configuration.switch
    one, other = np.flatnonzero(switch == switch[0])[:2]
    b_port[[one, other]] = b_port[[other, one]]
    other_topology = topology_of(replace(configuration, b_port=b_port))
    assert pairs_of(other_topology) != pairs_of(configuration.topology)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["a_port", "b_port"])
def test_every_other_port_is_another_topology_or_an_error(model, name):
    configuration = ring_on(model)
    for row in range(len(configuration.switch)):
        right = int(getattr(configuration, name)[row])
        for port in range(-1, 8):
            if port == right:
                continue
            wrong = changed(configuration, name, row, port)
            assert found(wrong) != pairs_of(configuration.topology)


def found(configuration):
    try:
        return pairs_of(topology_of(configuration))
    except ValueError:
        return None


def test_every_trunk_matters():
    configuration = staged()
    cabling = configuration.cabling
    for row in range(len(cabling.trunks)):
        for column in (1, 3):
            trunks = cabling.trunks.copy()
            trunks[row, column] = trunks[row, column] % 4 + 1
            wrong = replace(configuration, cabling=replace(cabling, trunks=trunks))
            with pytest.raises(ValueError, match="trunks use one port"):
                topology_of(wrong)
    lost = replace(configuration, cabling=replace(cabling, trunks=cabling.trunks[1:]))
    with pytest.raises(ValueError, match="without a cable or cross-connect"):
        topology_of(lost)


@pytest.mark.parametrize("row", range(0, 48, 5))
def test_every_stage_matters(row):
    configuration = staged()
    kept = np.arange(len(configuration.switch)) != row
    columns = {
        name: getattr(configuration, name)[kept]
        for name in ("circuit", "switch", "a_port", "b_port")
    }
    assert found(replace(configuration, **columns)) != pairs_of(configuration.topology)


@pytest.mark.parametrize(
    ("model", "name", "value", "sentence"),
    [
        (PortModel.SIMPLEX, "a_port", 9, "switch p0s0 has no port 9"),
        (PortModel.SIMPLEX, "b_port", 0, "switch p0s0 has no port 0"),
        (PortModel.SIMPLEX, "switch", 7, "there is no switch 7"),
        (PortModel.SIMPLEX, "a_port", 2, "two cross-connects use one port"),
        (PortModel.SIMPLEX, "b_port", 6, "ends at host h5, which is no node"),
        (PortModel.MATCHING, "b_port", 1, "joins a port with itself"),
    ],
)
def test_the_error_says_what_is_wrong(model, name, value, sentence):
    configuration = ring_on(model)
    row = int(np.flatnonzero((configuration.switch == 0) & (configuration.a_port == 1))[0])
    with pytest.raises(ValueError, match=sentence):
        topology_of(changed(configuration, name, row, value))


def test_two_strands_in_one_port():
    configuration = ring_on(PortModel.SIMPLEX)
    cabling = configuration.cabling
    a_port = cabling.a_port.copy()
    a_port[1, 0] = a_port[0, 0]
    with pytest.raises(ValueError, match="two host strands use one port"):
        topology_of(replace(configuration, cabling=replace(cabling, a_port=a_port)))


def test_a_state_that_is_not_listed():
    states = np.array([[2, 3, 1], [3, 1, 2]])
    made = fabric(3, [[3]], PortModel.RESTRICTED, states=states)
    configuration = embed(made, parse("UniRing(1, 3)").topology()).configuration
    b_port = configuration.b_port[::-1].copy()
    assert pairs_of(topology_of(configuration)) == [(0, 1), (1, 2), (2, 0)]
    with pytest.raises(ValueError, match="no state with all of its cross-connects"):
        topology_of(replace(configuration, b_port=b_port))
