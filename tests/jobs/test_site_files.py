"""One description of a machine room, and that older ones say the same as before."""

from __future__ import annotations

from fractions import Fraction

import pytest
import yaml
from folders import EXAMPLES

from ocs_codesign.core.cost import CostModel
from ocs_codesign.fabric.files.cluster_files import load_cluster
from ocs_codesign.fabric.files.fabric_files import fabric_text, load_fabric
from ocs_codesign.faces.cli import main
from ocs_codesign.faces.sites import MACHINES
from ocs_codesign.interop.wiring.registry import read_network
from ocs_codesign.interop.wiring.wires import ReadOptions
from ocs_codesign.jobs.files.job_cluster_files import load_described, load_job_cluster, load_room
from ocs_codesign.jobs.files.site_files import load_site

ROOM = EXAMPLES / "room.yaml"
OPTICS = ("cluster250", "cluster256", *MACHINES)
PACKETS = ("h100x64", "h100x16384")


def changed(place, **changes):
    """The example with other values of keys, None for none, and its path."""
    value = yaml.safe_load(ROOM.read_text(encoding="utf-8"))
    for key, part in changes.items():
        value[key] = {**value[key], **part} if isinstance(part, dict) and key in value else part
    path = place / "room.yaml"
    kept = {key: part for key, part in value.items() if part is not None}
    path.write_text(yaml.safe_dump(kept), encoding="utf-8")
    return path


def network_of(path):
    return load_site(path).network()


def converted(place, name):
    path = place / f"{name}.yaml"
    path.write_text(load_site(EXAMPLES / f"{name}.yaml").text(), encoding="utf-8")
    assert "version: 2" in path.read_text(encoding="utf-8")
    return path


@pytest.mark.parametrize("name", OPTICS)
def test_a_cluster_for_jobs_and_its_room_are_the_same(name, tmp_path):
    old, new = EXAMPLES / f"{name}.yaml", converted(tmp_path, name)
    assert load_job_cluster(new) == load_job_cluster(old)
    assert load_room(new) == load_room(old)
    assert load_cluster(new) == load_cluster(old)
    assert fabric_text(load_fabric(new)) == fabric_text(load_fabric(old))


@pytest.mark.parametrize("name", PACKETS)
def test_a_cluster_of_packets_and_its_room_are_the_same(name, tmp_path):
    old, new = EXAMPLES / f"{name}.yaml", converted(tmp_path, name)
    assert load_described(new) == load_described(old)
    with pytest.raises(ValueError, match="switches is missing"):
        load_fabric(new)


def test_a_cluster_and_its_room_are_the_same(tmp_path):
    new = converted(tmp_path, "servers")
    assert load_cluster(new) == load_cluster(EXAMPLES / "servers.yaml")


def test_a_fabric_and_its_room_are_the_same(tmp_path):
    new = converted(tmp_path, "fabric64")
    old = load_fabric(EXAMPLES / "fabric64.yaml")
    assert fabric_text(load_fabric(new)) == fabric_text(old)
    assert read_network(new, ReadOptions())[0].num_hosts == 64


def test_everything_follows_from_the_room():
    fabric, cluster = load_fabric(ROOM), load_cluster(ROOM)
    assert (fabric.num_working_hosts, fabric.num_planes, fabric.loss_budget_db) == (16, 4, 3.0)
    assert fabric.cost_model == CostModel(5e-6, 10**11)
    assert [nic.planes for nic in fabric.servers.nics] == [(0,), (1,), (2,), (3,)]
    assert (cluster.num_gpus, len(cluster.cards), cluster.cards[3].gpus) == (64, 4, (3,))
    job = load_job_cluster(ROOM)
    assert (job.num_servers, job.accelerators_a_server, job.num_ports) == (16, 4, 1)
    assert (job.port_Bps, job.alpha_s) == (25 * 10**9, Fraction(1, 200_000))
    assert job.scale_up == CostModel(Fraction(2, 10**6), 3 * 10**11)
    name, room = load_room(ROOM)
    assert (name, room.num_accelerators, room.outside_Bps) == ("room16", 64, 25e9)
    machine, accelerator = load_site(ROOM).machine()
    assert [level.num_ranks for level in machine.levels] == [4, 64]
    assert machine.levels[1].model.alpha_s == Fraction(1, 200_000)
    assert accelerator.peak_flops == room.chip.bf16
    inside, between = load_site(ROOM).dimensions()
    assert (inside[1:3], between[1:3]) == ((4, 3 * 10**11), (16, 25 * 10**9))
    assert between[3] * 25 * 10**9 == pytest.approx(float(job.port_usd * 64))


def test_networks_of_a_room(tmp_path):
    switched = read_network(ROOM, ReadOptions())[0]
    assert (switched.num_hosts, switched.unit) == (64, "GB/s")
    assert sorted(set(switched.latency.tolist())) == [0, 5000]
    ring = load_site(changed(tmp_path, designs=["UniRing(1, 16)"])).network()
    assert ring.num_nodes < switched.num_nodes
    assert ring.num_links == 64 * 2 + 64
    with pytest.raises(ValueError, match="designs: UniRing"):
        load_site(changed(tmp_path, designs=["UniRing(1, 8)"])).network()


def test_what_is_lost_is_gone(tmp_path):
    path = changed(tmp_path, lost=["server03"])
    assert "server03" not in load_fabric(path).hosts
    assert load_job_cluster(path).num_servers == 15
    assert load_cluster(path).num_gpus == 60
    path = changed(tmp_path, lost=["server03.nic1"])
    assert load_cluster(path).lost == ("server03.nic1",)
    for load in (load_fabric, load_job_cluster):
        with pytest.raises(ValueError, match="nic1 is lost or slow: a fabric has"):
            load(path)


def test_keys_without_a_value_are_not_given(tmp_path):
    path = tmp_path / "room.yaml"
    keys = ("planes", "network", "designs", "losses", "prices", "failures", "slow_hosts")
    text = load_site(ROOM).text().partition("prices:")
    path.write_text(text[0] + "".join(f"{key}:\n" for key in keys), encoding="utf-8")
    assert fabric_text(load_fabric(path)) == fabric_text(load_fabric(ROOM))
    assert load_job_cluster(path) == load_job_cluster(ROOM)


def test_more_hosts_than_ports_take_more_switches(tmp_path):
    path = changed(tmp_path, hosts={"count": 400, "pattern": "s{}"})
    fabric = load_fabric(path)
    assert len(fabric.switches) == 8
    assert {switch.num_ports for switch in fabric.switches} == {200}


@pytest.mark.parametrize(
    ("changes", "load", "message"),
    [
        ({"hosts": None}, load_site, "hosts is missing"),
        ({"acelerator": 1}, load_site, "acelerator is no known key: did you mean accelerator?"),
        ({"switches": {"port": 3}}, load_site, "switches.port is no known key: did you"),
        ({"accelerator": {"name": "h10"}}, load_site, "no accelerator is named 'h10'"),
        ({"network": {"bandwidth": "1GB/s"}}, load_site, "must have one of planes, switches and"),
        ({"node_bandwidth": "1GB/s"}, load_site, "must have one of node_bandwidth and port_band"),
        ({"switches": None}, load_fabric, "switches is missing: circuits are on optical switches"),
        ({"switches": None}, load_job_cluster, "switches is missing"),
        ({"servers": None}, load_fabric, "servers is missing: a plane is of one port of its NICs"),
        ({"port_bandwidth": None}, load_fabric, "port_bandwidth is missing, or differs"),
        ({"alpha": None}, load_fabric, "alpha is missing"),
        ({"accelerator": None}, load_job_cluster, "accelerator is missing"),
        ({"slow": [{"what": "server03", "bandwidth": "1GB/s"}]}, load_fabric, "is lost or slow"),
        ({"servers": {"nics": [{"gpus": "gpu"}]}}, load_fabric, r"nics\[0\].ports is missing"),
        ({"hosts": {"count": 2, "spares": 2}}, load_fabric, "hosts.spares is 2"),
        ({"hosts": {"count": 2}, "lost": ["server00", "server01"]}, load_cluster, "hosts"),
        ({"lost": ["server99"]}, network_of, "server99 is no server or NIC"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(changes, load, message, tmp_path):
    with pytest.raises(ValueError, match=message) as raised:
        load(changed(tmp_path, **changes))
    assert str(raised.value).count("room.yaml") == 1
    assert "\n" not in str(raised.value)


def test_builders_of_rooms(capsys):
    assert load_job_cluster("dgx_h100(4)").num_servers == 4
    assert load_fabric("mi300x(2)").name == "mi300x(2)"
    with pytest.raises(ValueError, match=r"a100\(2\) is no builder of rooms"):
        load_fabric("a100(2)")
    with pytest.raises(ValueError, match="from 1 to 131072 servers"):
        load_fabric("dgx_h100(0)")
    assert main(["fabric", "check", "dgx_h100(4)"]) == 0
    assert "16 of 8 GPUs" not in capsys.readouterr().out


@pytest.mark.slow
def test_example_writes_older_files_as_rooms(tmp_path, capsys):
    assert main(["fabric", "example", str(EXAMPLES / "cluster256.yaml")]) == 0
    path = tmp_path / "room.yaml"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    assert load_job_cluster(path) == load_job_cluster(EXAMPLES / "cluster256.yaml")
    assert main(["fabric", "example", str(EXAMPLES / "layers.yaml")]) == 2
    assert "it describes no room" in capsys.readouterr().err
    assert main(["fabric", "schema", "room"]) == 0
    assert '"accelerator"' in capsys.readouterr().out


@pytest.mark.slow
def test_jobs_that_are_no_transformers_take_the_levels_of_a_room(capsys):
    assert main(["iterate", str(EXAMPLES / "groups.yaml"), str(ROOM), "-q"]) == 0
    assert main(["iterate", str(EXAMPLES / "layers.yaml"), str(EXAMPLES / "h100x64.yaml")]) == 2
    assert "alpha is missing: what a step between servers takes" in capsys.readouterr().err


@pytest.mark.slow
def test_allocate_divides_a_room(capsys):
    assert main(["allocate", str(ROOM), "--message", "1GiB", "--collective", "allreduce"]) == 0
    told = capsys.readouterr().out
    assert "inside servers, 4 accelerators" in told
    assert "between 16 servers" in told
    assert main(["allocate", str(ROOM)]) == 2
    assert main(["allocate", str(ROOM), "--message", "1MiB", "--bandwidth", "1GB/s"]) == 2
