"""Repairs: known moves, the light of what is made, plugging replayed by hand, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from embed_samples import fabric, pairs_of

from ocs_codesign.fabric.description import PortModel, rotations
from ocs_codesign.fabric.embedding.embed import embed
from ocs_codesign.fabric.infeasible import InfeasibleError, Reason
from ocs_codesign.fabric.light import topology_of
from ocs_codesign.fabric.repairs.repair import repair
from ocs_codesign.fabric.wiring import Port, host_strands
from ocs_codesign.graphs.text import parse

MODELS = (PortModel.SIMPLEX, PortModel.TWO_SIDED, PortModel.MATCHING)


def plugged(configuration):
    """What is in every port: host strands by host and plane."""
    cabling = configuration.cabling
    found = {}
    for plane, host, side, switch, number in host_strands(cabling).tolist():
        there = cabling.fabric.switches[switch]
        sides = "AB" if there.profile.port_model.has_b_side else ("",)
        port = Port(there.name, sides[side], number)
        found[port] = f"{cabling.fabric.hosts[host]} plane {plane}"
    return found


def joined(configuration):
    switches = configuration.cabling.fabric.switches
    columns = (configuration.switch, configuration.a_port, configuration.b_port)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {(switches[switch].name, a, b) for switch, a, b in rows}


def check(old, made):
    """The new light is the old topology; moves and cross-connects lead from old to new."""
    new = made.configuration
    assert pairs_of(topology_of(new)) == pairs_of(old.topology)
    assert new.topology is old.topology
    ports = plugged(old)
    for move in made.moves:
        if move.what.startswith("trunk"):
            continue
        strand = None if move.before is None else ports.pop(move.before)
        if move.after is not None:
            assert move.after not in ports
            ports[move.after] = strand or f"{move.what.split()[0]} plane {move.what.split()[-1]}"
    after = plugged(new)
    assert {port: ports[port] for port in after} == after
    if all(switch.profile.port_model.has_b_side for switch in old.cabling.fabric.switches):
        removed = {(one.switch, one.a_port, one.b_port) for one in made.removed}
        added = {(one.switch, one.a_port, one.b_port) for one in made.made}
        assert removed <= joined(old)
        assert (joined(old) - removed) | added == joined(new)


def small(model, **options):
    there = fabric(10, [[12]] * 4, model, spares=2, spare_hosts=1, **options)
    return embed(there, parse("Circulant(8, (1, 3))").topology()).configuration


@pytest.mark.parametrize("model", MODELS)
def test_a_spare_host_takes_over_without_hands(model):
    old = small(model)
    made = repair(old, lost_hosts=["h3"])
    check(old, made)
    assert made.moves == ()
    assert [(one.node, one.before, one.after) for one in made.hosts] == [(3, "h3", "h9")]
    per_plane = 1 if model is PortModel.MATCHING else 2
    assert len(made.made) == len(made.removed) == 4 if per_plane == 1 else len(made.made) >= 4
    again = repair(made.configuration, lost_hosts=["h3", "h4"])
    check(made.configuration, again)
    assert again.hosts[0].after == "h8"


def test_there_are_only_so_many_spare_hosts():
    with pytest.raises(InfeasibleError, match="no spare host is left for the node of host h2") as e:
        repair(small(PortModel.SIMPLEX), lost_hosts=["h0", "h1", "h2"])
    assert e.value.reason is Reason.HOSTS


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("side", ["A", "B"])
def test_a_strand_moves_to_a_spare_port(model, side):
    old = small(model)
    port = Port("p0s0", "" if model is PortModel.MATCHING else side, 1)
    made = repair(old, lost_ports=[port])
    check(old, made)
    (move,) = made.moves
    assert (move.before, move.after) == (port, Port("p0s0", port.side, 11))
    assert len(made.removed) == len(made.made) == 1


def test_spare_ports_run_out():
    # Twelve ports: two spare ones, and those of ten hosts, of which two can be lost.
    ports = [Port("p0s0", "A", number) for number in (1, 2, 3)]
    old = small(PortModel.SIMPLEX)
    check(old, repair(old, lost_ports=ports[:2]))
    with pytest.raises(InfeasibleError, match="p0s0 has no free port left on side A") as error:
        repair(old, lost_ports=ports)
    assert error.value.reason is Reason.PORTS
    freed = repair(old, lost_hosts=["h9"], lost_ports=ports)
    check(old, freed)
    assert freed.hosts == ()
    assert [move.what for move in freed.moves if move.after is None] == ["h9 tx plane 0"]


def test_a_spare_that_is_not_cabled_is_plugged_in_for_the_lost_host():
    there = fabric(9, [[8]] * 2, spare_hosts=1)
    old = embed(there, parse("DirectedCirculant(8, (1, 3))").topology()).configuration
    made = repair(old, lost_hosts=["h5"])
    check(old, made)
    assert (made.made, made.removed) == ((), ())
    ends = [(move.what.split()[0], move.after is None) for move in made.moves]
    assert sorted(ends) == [("h5", True)] * 4 + [("h8", False)] * 4


@pytest.mark.parametrize("model", MODELS)
def test_a_lost_switch_uses_a_free_plane(model):
    there = fabric(8, [[8]] * 5, model)
    old = embed(there, parse("Circulant(8, (1, 3))").topology()).configuration
    made = repair(old, lost_switches=["p0s0"])
    check(old, made)
    assert made.moves == ()
    assert 0 not in made.configuration.plane


def test_a_lost_switch_is_spread_over_others():
    there = fabric(8, [[4, 6, 6]])
    old = embed(there, parse("UniRing(1, 8)").topology(), split_blocks=True).configuration
    made = repair(old, lost_switches=["p0s0"])
    check(old, made)
    assert {move.before.switch for move in made.moves if move.before} == {"p0s0"}
    assert len(made.made) == len(made.removed)
    idle = embed(fabric(8, [[4, 4, 4]]), old.topology, split_blocks=True).configuration
    spared = repair(idle, lost_switches=["p0s0"])
    check(idle, spared)
    assert {move.after.switch for move in spared.moves if move.after} == {"p0s2"}
    with pytest.raises(InfeasibleError, match=r"no other plane is free .* p0s0"):
        repair(embed(fabric(8, [[4, 4]]), old.topology, split_blocks=True), lost_switches=["p0s0"])


def test_ports_and_middle_switches_of_three_stages():
    topology = parse("Circulant(8, (1, 2))").topology()
    there = fabric(8, [[6] * 8] * 4, spares=1)
    old = embed(there, topology).configuration
    assert len(old.cabling.trunks)
    first = old.cabling.trunks[0].tolist()
    name = there.switches[first[0]].name
    made = repair(old, lost_ports=[Port(name, "B", first[1])])
    check(old, made)
    assert [(move.what, move.after) for move in made.moves] == [("trunk 0", Port(name, "B", 6))]
    edges = set(np.unique(old.cabling.a_switch)) | set(np.unique(old.cabling.b_switch))
    middle = next(n for n in range(8) if n not in edges and (old.switch == n).any())
    lost = there.switches[middle].name
    made = repair(old, lost_switches=[lost])
    check(old, made)
    moved = [move for move in made.moves if move.before and move.before.switch == lost]
    assert len(moved) == len(made.moves) > 0
    assert {move.after.number for move in moved if move.after} <= set(range(1, 6))
    # Without a switch that has no cables yet, too few ways are left.
    cabled = edges | set(old.cabling.trunks[:, [0, 2]].ravel())
    idle = [there.switches[number].name for number in range(8) if number not in cabled]
    with pytest.raises(InfeasibleError, match="an edge switch has 4 circuits, but") as error:
        repair(old, lost_switches=[lost, *idle])
    assert error.value.reason is Reason.CABLING


def test_switches_with_states_keep_their_ports():
    there = fabric(9, [[8]] * 2, PortModel.RESTRICTED, states=rotations(8), spare_hosts=1)
    old = embed(there, parse("DirectedCirculant(8, (1, 3))").topology()).configuration
    made = repair(old, lost_hosts=["h2"])
    check(old, made)
    assert made.made == ()
    for lost in ({"lost_ports": [Port("p0s0", "A", 1)]}, {"lost_switches": ["p0s0"]}):
        with pytest.raises(InfeasibleError, match="states"):
            repair(old, **lost)  # type: ignore[arg-type]


def refusal_of(old, hosts, ports, switches):
    """Why it cannot be repaired; else it is repaired, and nothing that is lost is used."""
    try:
        made = repair(old, hosts, sorted(ports), switches)
    except InfeasibleError as error:
        return error.reason
    check(old, made)
    new, lost = made.configuration, {str(port) for port in ports}
    fabric = new.cabling.fabric
    near, far = "AB" if fabric.port_model.has_b_side else ("", "")
    for switch, a, b in joined(new):
        assert not lost & {f"{switch}:{a}{near}", f"{switch}:{b}{far}"}
        assert switch not in switches
    assert not {fabric.hosts[host] for host in new.host} & set(hosts)
    return None


@pytest.mark.parametrize("seed", range(12))
def test_random_losses(seed):
    random = np.random.default_rng(seed)
    model = MODELS[seed % 3]
    there = fabric(12, [[16]] * 5, model, spares=2, spare_hosts=4)
    old = embed(there, parse("Circulant(8, (1, 3))").topology()).configuration
    hosts = [f"h{n}" for n in random.choice(12, 2, replace=False)]
    sides = ("",) if model is PortModel.MATCHING else "AB"
    numbers = random.choice(12, 3, replace=False) + 1
    ports = {Port(f"p{random.integers(5)}s0", sides[n % len(sides)], int(n)) for n in numbers}
    switches = [f"p{random.integers(5)}s0"][: int(random.integers(2))]
    refusal = refusal_of(old, hosts, ports, switches)
    assert switches or refusal is None  # hosts and ports have spares enough


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("sizes", "stages"), [([6] * 10, 3), ([5, 5, 5], 1)])
def test_random_losses_in_planes_of_several_switches(seed, sizes, stages):
    random = np.random.default_rng(seed)
    there = fabric(10, [sizes] * 3, spares=1, spare_hosts=2)
    topology = parse("DirectedCirculant(8, (1, 2))").topology()
    old = embed(there, topology, split_blocks=stages == 1).configuration
    assert old.num_circuits * stages == len(old.switch)
    places = random.integers([3, len(sizes), 2, sizes[0]], size=(2, 4)).tolist()
    ports = {Port(f"p{p}s{s}", "AB"[side], number + 1) for p, s, side, number in places}
    hosts = [f"h{random.integers(10)}"]
    switches = [f"p{random.integers(3)}s{random.integers(len(sizes))}"][: seed % 2]
    refusal = refusal_of(old, hosts, ports, switches)
    assert switches or refusal in (None, Reason.PORTS)  # the ports of an edge can be all in use


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("sizes", [[16], [6, 6, 6], [6] * 10])
def test_other_configurations_are_repaired_along(seed, sizes):
    """What is not up now is on the same cables and must come up without what is lost."""
    random = np.random.default_rng(seed)
    there = fabric(10, [sizes] * 4, spares=1, spare_hosts=2)
    recipes = ("DirectedCirculant(8, (1, 2))", "DirectedCirculant(8, (1, 6))", "UniRing(2, 8)")
    up, *others = [parse(recipe).topology() for recipe in recipes]
    split = len(sizes) == 3
    base = embed(there, up, split_blocks=split)
    made = [base.configuration]
    for other in others:
        try:
            made.append(embed(there, other, cabling=base.cabling).configuration)
        except InfeasibleError:
            assert split  # single circuits serve one configuration
    hosts = [f"h{random.integers(8)}"]
    plane, switch = random.integers(4), random.integers(len(sizes))
    ports = [Port(f"p{random.integers(4)}s0", "AB"[seed % 2], 1)] * (seed % 3 > 0)
    try:
        result = repair(made[0], hosts, ports, [f"p{plane}s{switch}"][: seed % 2], others=made[1:])
    except InfeasibleError:
        assert seed % 2 or len(sizes) > 3
        return
    check(made[0], result)
    assert len(result.others) == len(made) - 1
    lost = {str(port) for port in ports}
    for old, new in zip(made[1:], result.others, strict=True):
        assert new.cabling is result.configuration.cabling
        assert pairs_of(topology_of(new)) == pairs_of(old.topology)
        assert np.array_equal(new.host, result.configuration.host)
        for name, a, b in joined(new):
            assert not lost & {f"{name}:{a}A", f"{name}:{b}B"}
            assert not (seed % 2 and name == f"p{plane}s{switch}")


@pytest.mark.parametrize(
    ("hosts", "ports", "switches", "sentence"),
    [
        (["x"], [], [], "the lost host 'x' is no host of the fabric"),
        (["h1", "h1"], [], [], "given twice"),
        ([], [], ["s"], "the lost switch 's' is no switch"),
        ([], [Port("p0s0", "C", 1)], [], "p0s0:1C does not exist"),
        ([], [Port("p0s0", "A", 13)], [], "ports 1 to 12 on sides A and B"),
        ([], [Port("p0s0", "A", 1)] * 2, [], "given twice"),
    ],
)
def test_bad_input(hosts, ports, switches, sentence):
    with pytest.raises(ValueError, match=sentence):
        repair(small(PortModel.SIMPLEX), hosts, ports, switches)
