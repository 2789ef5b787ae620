"""Networks in other people's files: rates known exactly, what is asked for, what is refused."""

from __future__ import annotations

import json
import os
import random
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from folders import DATA

from ocs_codesign.core.collective import Collective
from ocs_codesign.faces.cli import main
from ocs_codesign.interop.wiring.registry import READERS, read_network, told
from ocs_codesign.interop.wiring.wires import ReadOptions, Wires
from ocs_codesign.schedules.forest.optimum import optimum

FILES = DATA / "foreign"
GB = Fraction(10**9)
KNOWN = {
    # File: format, what is asked beside it, algbw of an allgather in GB/s, hosts, nodes joined.
    "boxes.infragraph.yaml": ("infragraph", (), Fraction(1600, 8), 8, 39),
    "a100_nvswitch.nccl.xml": ("nccl-topology", (), Fraction(2112, 7), 8, 15),
    "h100_nvswitch.nccl.xml": ("nccl-topology", (), Fraction(16752, 35), 8, 15),
    "dgx1.nccl.xml": ("nccl-topology", (), Fraction(1056, 7), 8, 14),
    "pcie_only.nccl.xml": ("nccl-topology", (), Fraction(32), 4, 8),
    "topo_m.txt": ("nvidia-smi", ("nvlink=25GB/s",), Fraction(400), 4, 5),
    "topo_m_dgx1.txt": ("nvidia-smi", ("nvlink=25GB/s",), Fraction(1200, 7), 8, 8),
    "cables.csv": ("cables", (), Fraction(400, 24), 4, 8),
    "leafspine.ibnetdiscover.txt": ("ibnetdiscover", (), Fraction(32, 24), 4, 8),
    "leafspine_qdr.ibnetdiscover.txt": ("ibnetdiscover", (), Fraction(768, 88), 12, 17),
    "spectrum_x.topo": ("simulator-topology", (), Fraction(100), 8, 16),
}
NO_LATENCY = "no latency is said for some links: times are of bytes alone unless --latency"


def rate_GBps(network) -> Fraction:  # noqa: N802 - units keep their case
    from ocs_codesign.core.quantities import unit_of_bandwidth

    return optimum(network, Collective.ALLGATHER).algbw * unit_of_bandwidth(network.unit) / GB


@pytest.mark.parametrize("name", KNOWN)
def test_known_rates(name):
    kind, speeds, rate, hosts, joined = KNOWN[name]
    path = FILES / name
    assert told(path.read_bytes()) == kind
    network, reading = read_network(path, ReadOptions.of(speeds, ()))
    assert (network.num_hosts, reading.hosts, reading.nodes_joined) == (hosts, hosts, joined)
    assert reading.nodes_kept == network.num_nodes
    assert rate_GBps(network) == rate
    has_latency = name.endswith(".topo")
    assert (NO_LATENCY in reading.guesses) != has_latency
    assert bool(network.latency.any()) == (has_latency or "infragraph" in name)


def test_every_format_is_told_and_has_an_example():
    assert {kind for kind, *_ in KNOWN.values()} | {"lstopo"} == set(READERS)
    for own in (b'{"num_hosts": 2}', b"0 1\n1 0\n", b"num_hosts: 2\nlinks: []\n", b"<graphml/>"):
        assert told(own) is None


@pytest.mark.parametrize(
    ("name", "speeds", "without", "rule"),
    [
        ("topo_m.txt", (), (), "give --speed nvlink=QUANTITY"),
        ("cables.csv", ("nic=1GB/s",), (), "no link is called 'nic': links are cable"),
        ("a100_nvswitch.nccl.xml", (), ("pcie", "nvlink"), "8 parts: 1 with gpu0"),
        ("cables.csv", ("cable",), (), "a speed is LINK=QUANTITY"),
        ("cables.csv", ("cable=3 apples",), (), "apples"),
    ],
)
def test_what_is_asked_beside_a_file(name, speeds, without, rule):
    with pytest.raises(ValueError, match=rule):
        read_network(FILES / name, ReadOptions.of(speeds, without))


def test_pcie_beside_nvlink_is_more_than_without():
    path = FILES / "a100_nvswitch.nccl.xml"
    alone, reading = read_network(path, ReadOptions.of((), ("pcie", "cpu")))
    assert (alone.num_nodes, list(reading.links)) == (9, ["nvlink"])
    assert rate_GBps(alone) == Fraction(8 * 240, 7)


def test_link_speeds_are_matched_as_nccl_does():
    """16.0 GT/s alone begins as no entry of its table does, and counts as generation 3."""
    data = (FILES / "pcie_only.nccl.xml").read_bytes()
    halved = data.replace(b"16.0 GT/s PCIe", b"16.0 GT/s")
    assert halved != data
    networks = [
        READERS["nccl-topology"].read(each, "x").network(ReadOptions()) for each in (data, halved)
    ]
    assert rate_GBps(networks[0]) == 2 * rate_GBps(networks[1])


def wires_of(hosts: int, cables) -> Wires:
    found = Wires("test")
    for at in range(hosts):
        found.node(f"h{at}", is_host=True)
    for one, other, width in cables:
        for end in (one, other):
            if end[0] != "h":
                found.node(end, is_host=False)
        found.cable(one, other, "wire", Fraction(width))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_pruning_and_splicing_leave_rates_as_they_are(seed):
    """Random networks of chains, leaves and cycles, against the same without either."""
    rng = np.random.default_rng(seed)
    hosts, switches = int(rng.integers(2, 6)), int(rng.integers(2, 12))
    names = [*(f"h{at}" for at in range(hosts)), *(f"s{at}" for at in range(switches))]
    cables = [
        (name, names[hosts + int(rng.integers(switches))], int(rng.integers(1, 9)))
        for name in names[:hosts]
    ]
    cables += [
        (names[hosts + at], names[hosts + int(rng.integers(at))], int(rng.integers(1, 9)))
        for at in range(1, switches)
    ]
    for _ in range(int(rng.integers(0, 5))):
        one, other = rng.choice(len(names), 2, replace=False)
        cables.append((names[one], names[other], int(rng.integers(1, 9))))
    read = wires_of(hosts, cables)
    network = read.network(ReadOptions())
    plain = [(one, other, width) for one, other, width in cables]
    number = {name: at for at, name in enumerate(names)}
    from ocs_codesign.core.network import Network

    tail = [number[one] for one, _, _ in plain] + [number[other] for _, other, _ in plain]
    head = [number[other] for _, other, _ in plain] + [number[one] for one, _, _ in plain]
    whole = Network(hosts, len(names), tail, head, [width for *_, width in plain] * 2)
    expected = optimum(whole, Collective.ALLGATHER).algbw
    assert rate_GBps(network) * GB == expected
    degrees = [
        len({*network.head[network.tail == node], *network.tail[network.head == node]})
        for node in range(network.num_hosts, network.num_nodes)
    ]
    assert all(degree > 2 for degree in degrees)
    assert network.num_nodes == read.reading.nodes_kept


def test_hosts_are_in_natural_order_and_parts_are_named():
    network = wires_of(12, [(f"h{at}", "s0", 1) for at in range(12)]).network(ReadOptions())
    assert network.names[:3] == ("h0", "h1", "h2")
    assert network.names[10] == "h10"
    apart = wires_of(5, [("h0", "h1", 1), ("h2", "s1", 1), ("h3", "s1", 1), ("h4", "s1", 1)])
    with pytest.raises(ValueError, match=r"2 parts: 3 with h2, h3, h4; 2 with h0, h1"):
        apart.network(ReadOptions())


LSTOPO = """<?xml version="1.0"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" gp_index="1">
  <object type="Package" gp_index="2">
   <object type="Bridge" gp_index="3" bridge_type="0-1">
    {devices}
   </object>
  </object>
 </object>
 <distances2hetero nbobjs="3" kind="10" name="NVLinkBandwidth" indexing="gp">
  <indexes length="30">PCIDev:10 PCIDev:11 PCIDev:20</indexes>
  <u64values length="40">0 0 50000 0 0 50000 50000 50000 0</u64values>
 </distances2hetero>
</topology>
"""
DEVICE = (
    '<object type="PCIDev" gp_index="{at}" pci_type="{kind} [10de:20b0]" pci_link_speed="{speed}"/>'
)


def test_lstopo(tmp_path):
    devices = [DEVICE.format(at=10 + at, kind="0302", speed=31.5) for at in range(2)]
    text = LSTOPO.format(devices="\n".join([*devices, DEVICE.format(at=20, kind="0680", speed=0)]))
    path = tmp_path / "node.xml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"links called cpu, pcie: give --speed cpu=QUANTITY"):
        read_network(path, ReadOptions())
    network, _ = read_network(path, ReadOptions.of((), ("cpu", "pcie")))
    assert rate_GBps(network) == 2 * 50
    wide, _ = read_network(path, ReadOptions.of(("cpu=1GB/s", "pcie=31.5GB/s"), ()))
    assert rate_GBps(wide) == 2 * Fraction(163, 2)
    path.write_text(text.replace('hwloc2.dtd"', "hwloc2.dtd\" [<!ENTITY a 'b'>]"))
    with pytest.raises(ValueError, match="entities"):
        read_network(path, ReadOptions())
    path.write_text(text.replace("50000 0<", "50000<"))
    with pytest.raises(ValueError, match="8 values for 3 objects"):
        read_network(path, ReadOptions())


BAD = {
    "devices: []\ninstances: []\n": "there are no hosts",
    "devices:\n- {name: a, components: [{name: g, choice: gpu}]}\n"
    "instances: [{name: i, device: a}]\n": "component 'g' of device 'a' is a 'gpu'",
    "devices:\n- {name: a, components: [{name: g, choice: custom}]}\n"
    "instances: [{name: i, device: a}]\n": "a custom one with its type",
    "devices:\n- {name: a, components: [{name: a, choice: device}]}\n"
    "instances: [{name: i, device: a}]\n": "nested more than 8 deep",
    "devices:\n- {name: a, components: [{name: g, choice: xpu, count: 3000000}]}\n"
    "instances: [{name: i, device: a}]\n": "count is 3000000",
    "devices:\n- {name: a, components: [{name: g, choice: xpu, count: 2000000}]}\n"
    "instances: [{name: i, device: a, count: 9}]\n": "more than 2,097,152 nodes",
    "devices:\n- {name: a, components: [{name: g, choice: xpu, count: 2}], links: [{name: l}],"
    " edges: [{ep1: {component: g}, ep2: {component: s}, link: l}]}\n"
    "instances: [{name: i, device: a}]\n": "edge 0 of device 'a' names 's'",
    "devices:\n- {name: a, components: [{name: g, choice: xpu, count: 2}], links: [{name: l}],"
    " edges: [{ep1: {component: 'g[5]'}, ep2: {component: g}, link: l}]}\n"
    "instances: [{name: i, device: a}]\n": "there are 2 of these",
    '<system version="1"><cpu><pci busid="1" link_width="16"><gpu dev="0"/></pci></cpu></system>': (
        "sm of gpu0"
    ),
    "<system version='1'><cpu><disk/></cpu></system>": "<disk> below cpu0",
    "<system version='2'/>": "a system of version 1",
    "\tGPU0\tGPU1\nGPU0\tX\tNV4\nGPU1\tNV2\tX\n": "GPU0 and GPU1 differ by direction",
    "\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tSYS\tX\n": "there is no NVLink",
    "\tGPU0\tGPU1\nGPU0\tX\tNV4\n": "no row for every GPU",
    "\tGPU0\tGPU1\nGPU0\tX\tNVx\nGPU1\tNV2\tX\n": "line 2: a row has a cell",
    "a_device,b_device\nh0,s0\nh1\n": "line 3: 1 cells, but the heading has 2",
    "a_device,a_port,b_device,b_port\nh0,1,s,1\nh1,1,s,1\n": "port 1 of s is in line 2 as well",
    "a_device,b_device,speed\nh0,s0,100\n": "with its unit, such as 100Gbps",
    "a_device,b_device,speed_Gbps\nq0,s0,100\n": "no device is a host by role or name",
    "a_device,b_device\nh0,s0\nh1,s0\n": "give --speed cable=QUANTITY",
    'Switch\t2 "S-1"\t\t# "s"\n[1]\t"H-9"[1](9) \t# "h" lid 0 4xHDR\n': "'H-9' has no device line",
    'Switch\t2 "S-1"\t\t# "s"\n[1]\t"S-1"[2] \t# "h" lid 0 fast\n': "no speed such as 4xHDR",
    'Ca\t1 "H-1"\t\t# "h"\n': "there are no cables",
    "3 1 2\n2\n0 2 1Gbps 1us 0\n": "the file has 9 words where 14 belong",
    "3 1 1\n7\n0 2 1Gbps 1us 0\n": "different numbers below 3",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_files_get_one_sentence(text, tmp_path, capsys):
    path = tmp_path / "given.txt"
    path.write_text(text)
    assert main(["optimum", str(path)]) == 2
    error = capsys.readouterr().err
    assert BAD[text] in error
    assert error.count("\n") == 1
    assert "given.txt" in error


def test_commands_say_what_was_read(tmp_path, capsys):
    path = str(FILES / "topo_m.txt")
    speed = ["--speed", "nvlink=25GB/s"]
    assert main(["optimum", path, *speed, "--json", "-"]) == 0
    (read,) = json.loads(capsys.readouterr().out)["read"]
    assert read["format"] == "nvidia-smi topo -m"
    assert any("PCIe and NICs" in guess for guess in read["guesses"])
    asked = ["--message", "1MiB", "--latency", "1us"]
    for command in (
        ["optimum", path, "--collective", "alltoall"],
        ["compare", path, *asked],
        ["build", "--network", path, "--out", str(tmp_path / "made")],
        ["cost", "--network", path, "--scheduler", "forest"],
    ):
        assert main([*command, *speed]) == 0, command
        assert "nvidia-smi topo -m: 4 hosts of 5 nodes" in capsys.readouterr().out, command
    assert main(["simulate", str(tmp_path / "made"), "--network", path, *asked, *speed]) == 0
    capsys.readouterr()
    assert main(["optimum", "star(4, 10)", *speed]) == 2
    assert "--speed, --speed-attribute and --without are for files" in capsys.readouterr().err


def test_nodes_of_a_type_are_no_hosts(tmp_path, capsys):
    """GraphML of InfraGraph: processors, cards and accelerators, and no bandwidth."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_node("a", type="xpu")
    graph.add_node("b", type="cpu")
    graph.add_edge("a", "b")
    nx.write_graphml(graph, tmp_path / "g.graphml")
    assert main(["optimum", str(tmp_path / "g.graphml")]) == 2
    assert "nodes have a type" in capsys.readouterr().err


def mutated(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    kind = rng.randrange(5)
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    lines = data.splitlines(keepends=True)
    number = rng.randrange(len(lines))
    if kind == 2:
        return b"".join(lines[:number] + lines[number + 1 :])
    if kind == 3:
        return b"".join([*lines[:number], lines[number], *lines[number:]])
    numbers = [place for place, byte in enumerate(data) if 48 <= byte < 58]
    at = rng.choice(numbers)
    return data[:at] + str(rng.choice([0, 9, 10**9, 10**20])).encode() + data[at + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_mutated_files(name):
    """One sentence, or a network whose hosts are joined and whose links have a width."""
    data, speeds = (FILES / name).read_bytes(), KNOWN[name][1]
    rng = random.Random(name)
    for _ in range(1200):
        spoiled = mutated(data, rng)
        kind = told(spoiled)
        if kind is None:
            continue
        try:
            network = READERS[kind].read(spoiled, name).network(ReadOptions.of(speeds, ()))
        except ValueError as error:
            sentence = str(error)
        else:
            sentence = ""
            assert (network.bandwidth > 0).all()
        assert "\n" not in sentence


@pytest.fixture(scope="module")
def blueprints():
    """What the package infragraph makes of its own blueprints, in the interpreter that has it."""
    script = Path(__file__).with_name("infragraph_blueprints.py")
    command = [os.environ["INFRAGRAPH_PYTHON"], str(script)]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


REFUSED = {
    "dgx2": "names 'nvlsw",
    "xe9680L_h200": "a custom one with its type",
    "xe9680L_b200": "a custom one with its type",
    "xe9685L": "a custom one with its type",
}
SPEEDS = {
    "dgx_a100": (("pcie=512Gbps", "cpu_fabric=320Gbps", "xpu_fabric=400Gbps"), "3328"),
    "dgx_h100": (("pcie=512Gbps", "cpu_fabric=320Gbps", "xpu_fabric=900Gbps"), "28800/7"),
    "ironwood": ((), "545792/63"),
    "dragonfly_4_2_2": (("ic=100000Gbps", "nvlink=2400Gbps", "pcie=256Gbps"), "1440/7"),
    "clos_p4_server_3": (("ic=100000Gbps", "nvlink=2400Gbps", "pcie=256Gbps"), "1600/7"),
}


@pytest.mark.infragraph
def test_blueprints_have_the_nodes_and_edges_of_infragraph(blueprints):
    for name, made in blueprints.items():
        data = made["yaml"].encode()
        if name in REFUSED:
            with pytest.raises(ValueError, match=REFUSED[name]):
                READERS["infragraph"].read(data, name)
            continue
        wires = READERS["infragraph"].read(data, name)
        assert {*wires.hosts, *wires.others} == set(made["nodes"]), name
        assert {tuple(sorted(wire[:2])) for wire in wires.wires} == set(map(tuple, made["edges"]))
    assert len(blueprints) - len(REFUSED) == 18


@pytest.mark.infragraph
@pytest.mark.parametrize("name", SPEEDS)
def test_rates_of_blueprints(blueprints, name):
    wires = READERS["infragraph"].read(blueprints[name]["yaml"].encode(), name)
    network = wires.network(ReadOptions.of(SPEEDS[name][0], ()))
    assert rate_GBps(network) * 8 == Fraction(SPEEDS[name][1])
