"""Day two on a deployed fabric: from the cables and cross-connects of the bundle, and into it."""

from __future__ import annotations

import csv
import io
import json
import random
from functools import cache

import pytest
from bundle_samples import (
    carried,
    files_of,
    links_by_light,
    named,
    rotor_fabric,
    rows,
    small_deployment,
    small_fabric,
    stages_fabric,
    written,
)
from embed_samples import fabric

from ocs_codesign.fabric.bundle.read import read_bundle
from ocs_codesign.fabric.bundle.verify import check_bundle
from ocs_codesign.fabric.deployments.day_two import extended, repaired, restored, rewired, torn_down
from ocs_codesign.fabric.deployments.deploy import Failures, deploy
from ocs_codesign.fabric.deployments.held import spliced
from ocs_codesign.fabric.deployments.work import Action, joined_names
from ocs_codesign.fabric.description import PortModel, rotations
from ocs_codesign.fabric.files.fabric_files import save_fabric
from ocs_codesign.fabric.infeasible import InfeasibleError
from ocs_codesign.fabric.wiring import Port, cable_name, host_strands, strand_numbers
from ocs_codesign.faces.cli import main

ONE_WAY = (("one", "DirectedCirculant(8, (1, 3))"), ("two", "DirectedCirculant(8, (1, 2))"))
LOST = Failures(("h3",), (Port("p0s0", "A", 1), Port("p1s0", "B", 5)))


def joined(files, configuration):
    """The cross-connects of a configuration as the files of a bundle have them."""
    found = set()
    for path, data in files.items():
        if path.startswith(f"cross_connects/{configuration}/") and path.endswith(".csv"):
            switch = path.split("/")[-1].removesuffix(".csv")
            table = csv.DictReader(io.StringIO(data.decode(), newline=""))
            found |= {(switch, row["id"]) for row in table}
    return found


def _up_or_planned(state):
    """Either is named; it is up unless there is work."""
    (name,) = {state["up"], state["planned"]} - {None}
    assert state["up"] is not None or state["last_work"]["title"]
    return name


def carried_out(before, after):
    """The steps of the work, done by hand on what was up: every one must be possible."""
    was, now = (_up_or_planned(json.loads(files["state.json"])) for files in (before, after))
    dead = json.loads(after["state.json"])["failed"]["switches"]
    held = {(switch, name) for switch, name in joined(before, was) if switch not in dead}
    taken = {(switch, end) for switch, name in held for end in name.split("-")}
    plugged = {}
    for row in csv.DictReader(io.StringIO(before["cabling.csv"].decode(), newline="")):
        plugged[row["b_device"], row["b_port"]] = row["cable"]
        if row["polarity"] == "trunk":
            plugged[row["a_device"], row["a_port"]] = row["cable"]
    num_deleted = 0
    work = csv.DictReader(io.StringIO(after.get("work.csv", b"").decode(), newline=""))
    for step in work:
        place, port = (step["switch"], step["id"]), (step["switch"], step["id"])
        ends = {(step["switch"], end) for end in step["id"].split("-")}
        if step["action"] == "replace":
            assert plugged[port] == step["cable"]
        elif step["action"] == "delete":
            held.remove(place)  # a KeyError if it does not exist
            taken -= ends
            num_deleted += 1
        elif step["action"] == "create":
            assert not ends & taken
            held.add(place)
            taken |= ends
        elif step["action"] == "unplug":
            assert plugged.pop(port) == step["cable"]
        else:
            assert port not in plugged
            plugged[port] = step["cable"]
    assert held == joined(after, now)
    return num_deleted


def big_fabric():
    """128 working hosts and two spare ones on planes of 140 ports, eight of them spare."""
    return fabric(130, [[140]] * 4, spares=8, spare_hosts=2)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """A bundle of 128 hosts with two configurations, written once."""
    place = tmp_path_factory.mktemp("deployed")
    recipes = named(
        ("next", "Circulant(128, (1, 16))"), ("train", "DirectedCirculant(128, (1, 7, 50, 99))")
    )
    return written(deploy(big_fabric(), recipes, ("allgather",)), place / "bundle")


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def test_a_repair_and_a_rewire_of_128_hosts(deployed, tmp_path, capsys):
    before, out = files_of(deployed), tmp_path / "out"
    arguments = ("survive", "--bundle", deployed, "--repair", "host:h3")
    code, text, errors = run(capsys, *arguments, "--out", out, "--json", "-")
    assert (code, errors) == (0, "")
    answer = json.loads(text)
    assert (len(answer["removed"]), len(answer["made"]), answer["moves"]) == (8, 8, [])
    assert (answer["failed"], answer["up"], answer["planned"]) == (["host:h3"], None, "next")
    repaired_files = files_of(out)
    assert files_of(deployed) == before
    assert carried_out(before, repaired_files) == 8
    assert {row["host"] for row in rows(out / "ranks.csv") if row["rank"] == "3"} == {"h128"}
    assert check_bundle(out).ok
    code, text, _ = run(capsys, "rewire", "--bundle", out, "--done", "--json", "-")
    assert (code, json.loads(text)["up"], json.loads(text)["planned"]) == (0, "next", None)
    code, text, _ = run(capsys, "rewire", "--bundle", out, "train", "--json", "-")
    answer = json.loads(text)
    assert (code, answer["planned"], answer["hitless"]) == (0, "train", True)
    deletes = [row for stage in answer["stages"] for row in stage["deletes"]]
    assert len(deletes) == answer["deleted"] == carried_out(repaired_files, files_of(out))
    verdict = check_bundle(out)
    assert verdict.ok
    light = links_by_light(out, "train")
    assert not any("h3" in ends for ends in light)
    assert len(light) == verdict.configurations[1].topology.num_links == 512


@pytest.mark.parametrize("model", [PortModel.SIMPLEX, PortModel.TWO_SIDED, PortModel.MATCHING])
def test_what_is_read_is_what_was_written(model, tmp_path):
    first = written(small_deployment(model), tmp_path / "first")
    again = read_bundle(first)
    assert files_of(written(again, tmp_path / "again")) == files_of(first)
    lost = LOST
    if model is PortModel.MATCHING:
        lost = Failures(("h3",), (Port("p0s0", "", 1),))
    second = written(repaired(again, lost)[0], tmp_path / "second")
    third = written(read_bundle(second), tmp_path / "third")
    assert files_of(third) == files_of(second)
    assert check_bundle(third).ok


def test_three_stages_and_states_are_read_back(tmp_path):
    for name, there in (("stages", stages_fabric()), ("states", rotor_fabric())):
        first = written(deploy(there, named(*ONE_WAY)), tmp_path / name)
        assert files_of(written(read_bundle(first), tmp_path / f"{name}2")) == files_of(first)


def test_a_damaged_bundle_is_not_read(tmp_path):
    bundle = written(small_deployment(), tmp_path / "bundle")
    path = bundle / "cabling.csv"
    path.write_bytes(path.read_bytes().replace(b"p0s0,1A", b"p0s0,2A"))
    with pytest.raises(ValueError, match=r"is not a valid bundle: cabling.csv: .* \(and"):
        read_bundle(bundle)


def test_cables_keep_their_names(tmp_path):
    """Whatever is unplugged or moves: the labels on the fibres stay right."""
    before = deploy(small_fabric(planes=5), named(*ONE_WAY))
    after = repaired(before, Failures(switches=("p0s0",), hosts=("h2",)))[0]
    names = []
    for number, deployment in enumerate((before, after)):
        table = rows(written(deployment, tmp_path / str(number)) / "cabling.csv")
        names.append(
            {(row["a_device"], row["a_port"], row["a_strand"]): row["cable"] for row in table}
        )
    assert len(names[1]) == len(names[0]) - 20
    assert all(names[0][strand] == name for strand, name in names[1].items())


def test_what_failed_and_works_again_is_a_spare(tmp_path):
    broken = carried(repaired(small_deployment(), LOST)[0])
    with pytest.raises(ValueError, match="host:h3 has failed already"):
        repaired(broken, Failures(("h3",)))
    mended = restored(broken, Failures(("h3",)))
    assert check_bundle(written(mended, tmp_path / "bundle")).ok
    assert mended.failures.components() == ("port:p0s0:1A", "port:p1s0:5B")
    again, done = repaired(mended, Failures(("h9",)))
    assert done.hosts[0].after == "h3"
    last, done = repaired(carried(again), Failures(("h3",)))
    assert done.hosts[0].after == "h8"
    assert check_bundle(written(last, tmp_path / "last")).ok
    with pytest.raises(ValueError, match="host:h1 has not failed"):
        restored(carried(last), Failures(("h1",)))


def test_a_host_that_works_again_is_unplugged_from_a_port_that_does_not(tmp_path):
    """While both have failed the strand may stay; then it is in no port, and the host a spare."""
    broken = carried(repaired(small_deployment(), Failures(("h3",)))[0])
    broken = repaired(broken, Failures(ports=(Port("p0s0", "A", 4),)))[0]
    assert broken.work.steps == ()
    mended = restored(broken, Failures(("h3",)))
    assert [(step.action, step.id) for step in mended.work.steps] == [(Action.UNPLUG, "4A")]
    bundle = written(mended, tmp_path / "bundle")
    assert check_bundle(bundle).ok
    assert json.loads((bundle / "state.json").read_text())["unplugged"] == ["h3 p0 tx"]
    last, done = repaired(carried(read_bundle(bundle)), Failures(("h1", "h2")))
    assert {one.after for one in done.hosts} == {"h3", "h8"}
    assert check_bundle(written(last, tmp_path / "last")).ok


def test_a_bundle_with_a_history_is_not_replaced_by_a_new_one(tmp_path, capsys):
    """Who failed, what is planned and what was done are in no other place."""
    bundle, path = tmp_path / "bundle", tmp_path / "lab.yaml"
    save_fabric(small_fabric(), path)
    asked = ("deploy", "ring=BiRing(2, 8)", "--fabric", path, "--out", bundle)
    assert run(capsys, *asked)[0] == run(capsys, *asked)[0] == 0
    for command in (
        ("survive", "--bundle", bundle, "--repair", "host:h3"),
        ("rewire", "--bundle", bundle, "--done"),
        ("survive", "--bundle", bundle, "--restore", "host:h3"),
    ):
        assert run(capsys, *command)[0] == 0
        before = files_of(bundle)
        code, _, errors = run(capsys, *asked)
        assert (code, files_of(bundle) == before) == (2, True)
        assert "a new bundle would forget" in errors


def test_configurations_come_and_go(tmp_path, capsys):
    bundle, path = tmp_path / "bundle", tmp_path / "lab.yaml"
    save_fabric(small_fabric(), path)
    assert main(["deploy", "ring=BiRing(2, 8)", "--fabric", str(path), "--out", str(bundle)]) == 0
    before = files_of(bundle)
    code, _, errors = run(capsys, "deploy", "--bundle", bundle, "cube=Hypercube(3)")
    assert (code, errors) == (0, "")
    state = json.loads((bundle / "state.json").read_text())
    assert (state["up"], state["last_work"]["title"]) == ("ring", "add cube")
    assert check_bundle(bundle).ok
    after = files_of(bundle)
    assert all(after[name] == before[name] for name in ("cabling.csv", "links/ring.csv"))
    assert {"plans/ring-to-cube.csv", "plans/cube-to-ring.csv"} <= set(after)
    code, _, errors = run(capsys, "deploy", "--bundle", bundle, "--remove", "ring")
    assert (code, errors.count("\n")) == (2, 1)
    assert "configuration 'ring' is up: rewire to another one first" in errors
    assert run(capsys, "rewire", "--bundle", bundle, "ring", "cube")[0] == 0
    assert run(capsys, "rewire", "--bundle", bundle, "--done")[0] == 0
    assert run(capsys, "deploy", "--bundle", bundle, "--remove", "ring")[0] == 0
    assert check_bundle(bundle).ok
    assert not any("ring" in name for name in files_of(bundle))
    code, _, errors = run(capsys, "deploy", "--bundle", bundle, "cube=BiRing(2, 8)")
    assert (code, "name 'cube' is given twice" in errors) == (2, True)


def test_cables_that_do_not_fit_are_said():
    """Small switches hold the blocks of one topology; the other one needs other cables."""
    split, ring = named(
        ("split", "DirectedCirculant(8, (1, 3))"), ("ring", "DirectedCirculant(8, (1, 2))")
    )
    with pytest.raises(InfeasibleError, match="with new cables, ") as error:
        extended(deploy(fabric(8, [[4, 4]] * 2), [split]), [ring])
    assert str(error.value).startswith("ring does not fit the laid cables: ")
    # Three stages serve both.
    base = deploy(stages_fabric(), [split])
    with pytest.raises(InfeasibleError) as error:
        extended(base, [ring])
    assert "cables that serve all configurations need " in str(error.value)
    assert "such as C0000" in str(error.value)


def test_a_question_changes_nothing(tmp_path, capsys):
    bundle = written(small_deployment(), tmp_path / "bundle")
    before = files_of(bundle)
    for arguments in (
        ("rewire", "--bundle", bundle, "cube"),
        ("survive", "--bundle", bundle, "--repair", "cable:C00003"),
        ("survive", "--bundle", bundle, "--lost", "plane"),
    ):
        more = () if "--lost" in arguments else ("--what-if",)
        code, text, errors = run(capsys, *arguments, *more)
        assert (code, errors) == (0, "")
        assert ("nothing was written" if more else "those of ring") in text
    assert files_of(bundle) == before


def test_a_broken_cable_is_replaced_and_its_port_is_sound(tmp_path, capsys):
    """A new cable in the same ports: no circuit changes, and no port counts as failed."""
    bundle = written(small_deployment(), tmp_path / "bundle")
    before = files_of(bundle)
    where = {row["cable"]: row["b_port"] for row in rows(bundle / "cabling.csv")}
    arguments = ("survive", "--bundle", bundle, "--repair", "cable:C00003", "--json", "-")
    code, text, errors = run(capsys, *arguments)
    assert (code, errors) == (0, "")
    answer, after = json.loads(text), files_of(bundle)
    assert answer["failed"] == []
    work = ["stage,action,switch,id,plane,cable", f"1,replace,p0s0,{where['C00003']},0,C00003"]
    assert after["work.csv"].decode().split() == work
    assert carried_out(before, after) == 0
    assert after["cabling.csv"] == before["cabling.csv"]
    assert b"p0s0: replace 1 cables by new ones" in after["work.md"]
    assert check_bundle(bundle).ok
    written(read_bundle(bundle), tmp_path / "again")
    assert files_of(tmp_path / "again") == after
    port = f"port:p0s0:{where['C00003']}"
    assert run(capsys, "rewire", "--bundle", bundle, "--done")[0] == 0
    assert run(capsys, *arguments[:4], port)[0] == 0
    assert json.loads(files_of(bundle)["state.json"])["failed"]["ports"] == [port[5:]]


def test_what_is_really_held_is_where_the_stages_begin(tmp_path, capsys):
    """Two cross-connects of the configuration are down, and two that lead nowhere are up."""
    bundle = written(small_deployment(), tmp_path / "bundle")
    up = sorted(joined(files_of(bundle), "ring"))
    stray = ("p3s0", "11A-12B")
    held = tmp_path / "held.csv"
    table = ["switch,id", *(",".join(row) for row in (*up[2:], stray))]
    held.write_text("\n".join(table) + "\n")
    arguments = ("rewire", "--bundle", bundle, "ring", "--start", held, "--json", "-")
    code, text, errors = run(capsys, *arguments)
    assert (code, errors) == (0, "")
    answer = json.loads(text)
    steps = [(row["switch"], row["cross_connect"]) for row in answer["stages"][0]["deletes"]]
    assert steps == [stray]
    assert (answer["deleted"], answer["created"], answer["kept"]) == (1, 2, len(up) - 2)
    creates = [row for stage in answer["stages"] for row in stage["creates"]]
    assert {(row["switch"], row["cross_connect"]) for row in creates} == set(up[:2])
    assert check_bundle(bundle).ok
    for text, words in (
        ("switch,id\nx,1A-2B\n", "held.csv, line 2: the fabric has no switch 'x'"),
        ("switch,id\np0s0,1A-13B\n", "1A-13B of p0s0: it has ports 1 to 12"),
        ("switch,id\np0s0,1A-2B\np0s0,1A-3B\n", "port 1A of p0s0 is in 1A-2B and in 1A-3B"),
    ):
        held.write_text(text)
        code, out, errors = run(capsys, *arguments)
        assert (code, out) == (2, "")
        assert words in errors


def test_held_light_of_three_stages_is_followed(tmp_path, capsys):
    bundle = written(deploy(stages_fabric(), named(*ONE_WAY)), tmp_path / "bundle")
    up = sorted(joined(files_of(bundle), "one"))
    held = tmp_path / "held.csv"
    held.write_text("\n".join(["switch,id", *map(",".join, up)]) + "\n")
    arguments = ("rewire", "--bundle", bundle, "--start", held, "--what-if", "--json", "-")
    assert json.loads(run(capsys, *arguments, "one")[1])["stages"] == []
    listed = json.loads(run(capsys, *arguments, "two")[1])
    plan = json.loads(
        run(capsys, "rewire", "--bundle", bundle, "two", "--what-if", "--json", "-")[1]
    )
    assert [listed[key] for key in ("kept", "deleted", "created", "stages")] == [
        plan[key] for key in ("kept", "deleted", "created", "stages")
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rewire", "two"), "configuration 'two' is up already"),
        (("rewire", "none"), "no configuration is named 'none': there are two, one"),
        (("rewire", "one", "two"), "'two' is up, not 'one'"),
        (("rewire", "one", "--planes", "3"), "--planes cannot be given with --bundle"),
        (("rewire", "one", "--what-if", "--out", "x"), "--what-if writes no bundle"),
        (("rewire", "one", "--out", "-"), "cannot go to standard output"),
        (("survive", "--repair", "host:none"), "'none' is no host of the fabric"),
        (("survive", "--repair", "cable:C99999"), "no cable is named 'C99999'"),
        (("survive", "--repair", "plane:9"), "there is no plane 9"),
        (("survive", "--restore", "host:h1"), "host:h1 has not failed"),
        (("deploy", "x=BiRing(2, 9)"), "configurations of one fabric are of the same nodes"),
        (("deploy", "a-to-b=BiRing(2, 8)"), "which is between the names of two"),
        (("deploy", "--remove", "none"), "no configuration is named 'none'"),
    ],
)
def test_refusals(arguments, words, tmp_path, capsys):
    bundle = written(deploy(small_fabric(planes=2), named(*ONE_WAY[::-1])), tmp_path / "bundle")
    before = files_of(tmp_path)
    code, text, errors = run(capsys, *arguments, "--bundle", bundle)
    assert (code, text, errors.count("\n")) == (2, "", 1)
    assert words in errors
    assert files_of(tmp_path) == before
    code, _, errors = run(capsys, *arguments, "--bundle", tmp_path / "none")
    assert code == 2


@pytest.mark.parametrize(
    ("model", "planes", "recipe", "degree"),
    [
        (PortModel.SIMPLEX, 4, "DirectedCirculant(8, (1, 2, 3, 5))", 3),
        (PortModel.TWO_SIDED, 2, "Circulant(8, (1, 3))", 2),
        (PortModel.MATCHING, 4, "Circulant(8, (1, 3))", 3),
    ],
)
def test_a_design_of_fewer_ports_is_offered_when_a_plane_dies(
    model, planes, recipe, degree, tmp_path, capsys
):
    recipes = named(("all", recipe), ("thin", "BiRing(2, 8)"))
    bundle = written(deploy(small_fabric(model, planes), recipes), tmp_path / "bundle")
    before = files_of(bundle)
    arguments = ("survive", "--bundle", bundle, "--repair", "plane:0", "--json", "-")
    code, text, errors = run(capsys, *arguments)
    assert (code, errors) == (1, "")
    answer = json.loads(text)
    assert (answer["repaired"], answer["redesign"]["degree"]) == (False, degree)
    assert "all" in answer["redesign"]["torn_down"]
    assert files_of(bundle) == before
    code, text, errors = run(capsys, *arguments, "--redesign", "less")
    assert (code, errors) == (0, "")
    answer = json.loads(text)
    assert (answer["from"], answer["planned"]) == ("all", "less")
    assert answer["failed"] == ["switch:p0s0"]
    verdict = check_bundle(bundle)
    assert verdict.ok
    assert verdict.configurations[-1].topology.degree == degree
    assert "p0s0" in {switch for switch, _ in joined(before, "all")}
    carried_out(before, files_of(bundle))
    assert b"p0s0" not in files_of(bundle)["work.csv"]
    assert run(capsys, "rewire", "--bundle", bundle, "--done")[0] == 0
    code, _, errors = run(capsys, *arguments[:3], "--repair", "host:h1", "--redesign", "x")
    assert (code, "hosts and ports have spares" in errors) == (2, True)


@pytest.mark.parametrize("model", [PortModel.SIMPLEX, PortModel.MATCHING])
def test_nothing_is_said_to_be_up_or_planned_anew_until_the_work_is_reported_done(model, tmp_path):
    """Whatever changes a deployment: planned and done are two states, kept in the bundle."""
    deployment = small_deployment(model)
    recipes = named(("more", "UniRing(1, 8)"))
    changes = {
        "rewire": lambda now: rewired(now, "cube")[0],
        "repair": lambda now: repaired(now, Failures(("h1",)))[0],
        "splice": lambda now: spliced(now, Failures(("h4",)), "anywhere").deployment,
    }
    others = {
        "restore": lambda now: restored(now, Failures(("h1",))),
        "extend": lambda now: extended(now, recipes),
        "tear down": lambda now: torn_down(now, "cube"),
    }
    for change in changes.values():
        bundle = written(change(deployment), tmp_path / "bundle")
        planned = read_bundle(bundle)
        state = json.loads((bundle / "state.json").read_text())
        assert (state["up"], state["planned"]) == (None, planned.up)
        for again in (changes | others).values():
            with pytest.raises(ValueError, match="is planned and was not reported done"):
                again(planned)
        done = read_bundle(written(planned.reported(), bundle))
        assert (done.standing, done.up) == ("up", planned.up)
        assert check_bundle(bundle).ok
        with pytest.raises(ValueError, match="no work is planned"):
            done.reported()
        lying = {**state, "planned": None, "up": None}
        (bundle / "state.json").write_text(json.dumps(lying))
        assert any("either up or planned" in str(one) for one in check_bundle(bundle).findings)


def cables_of(deployment):
    """The names of all strands with a cable."""
    cabling, numbers = deployment.cabling, strand_numbers(deployment.fabric)
    strands = host_strands(cabling).tolist()
    return [cable_name(numbers[host, plane, side]) for plane, host, side, *_ in strands]


def some_loss(rng, deployment):
    """A host, a port with a cable, a cable's port, or a switch that has not failed."""
    there, failed = deployment.fabric, deployment.failures
    kind = rng.choice(("host", "host", "port", "port", "switch"))
    if kind == "host":
        return Failures((rng.choice([h for h in there.hosts if h not in failed.hosts]),))
    if kind == "switch":
        left = [one.name for one in there.switches if one.name not in failed.switches]
        return Failures(switches=(rng.choice(left),))
    sides = "AB" if there.port_model.has_b_side else ("",)
    if rng.random() < 0.2:
        return Failures(cables=(rng.choice(cables_of(deployment)),))
    switch = rng.choice(there.switches)
    port = Port(switch.name, rng.choice(sides), rng.randint(1, switch.num_ports))
    return Failures() if port in failed.ports else Failures(ports=(port,))


SEQUENCES = (
    (small_fabric(PortModel.SIMPLEX, 5), ONE_WAY),
    (small_fabric(PortModel.TWO_SIDED, 3), (("one", "BiRing(2, 8)"), ("two", "Hypercube(3)"))),
    (small_fabric(PortModel.MATCHING, 5), (("one", "BiRing(2, 8)"), ("two", "Hypercube(3)"))),
    (fabric(10, [[6, 6, 6]] * 3, spares=1, spare_hosts=2), ONE_WAY[:1]),
    (fabric(10, [[6] * 10] * 3, spares=1, spare_hosts=2, budget_db=20.0), ONE_WAY),
    (fabric(10, [[8]] * 4, PortModel.RESTRICTED, states=rotations(8), spare_hosts=2), ONE_WAY),
)


def steps_done(before, after):
    """The steps of the work carried out on the cross-connects that were up."""
    was, now = (
        set(joined_names(one.configuration(one.up).configuration)) for one in (before, after)
    )
    was = {(switch, name) for switch, name in was if switch not in after.failures.switches}
    for step in after.work.steps:
        if step.action is Action.DELETE:
            was.remove((step.switch, step.id))  # a KeyError if it does not exist
        elif step.action is Action.CREATE:
            ends = {(step.switch, end) for end in step.id.split("-")}
            assert not ends & {(switch, end) for switch, id_ in was for end in id_.split("-")}
            was.add((step.switch, step.id))
    assert was == now


def sequence(seed, place, *, through_files):
    """Rewire, fail and repair, restore at random; the bundle in the end, or each one, is valid."""
    rng = random.Random(seed)
    deployment = deployed_once(seed % len(SEQUENCES))
    done = []
    for _ in range(6):
        failed = deployment.failures
        others = [name for name in deployment.names if name != deployment.up]
        action = rng.choice(("rewire", "repair", "repair", "restore"))
        if action == "rewire" and others:
            after = rewired(deployment, rng.choice(others))[0]
        elif action == "restore" and failed.hosts:
            after = restored(deployment, Failures(failed.hosts[:1]))
        else:
            action = "repair"
            try:
                after = repaired(deployment, some_loss(rng, deployment))[0]
            except InfeasibleError:
                done.append("refused")
                continue
        steps_done(deployment, after)
        done.append(action)
        deployment = after
        if through_files:
            deployment = read_bundle(written(after, place / "bundle"))
        assert (deployment.standing == "planned") == bool(deployment.work.steps)
        deployment = carried(deployment)
    verdict = check_bundle(written(deployment, place / "bundle"))
    assert verdict.ok, (seed, done, verdict.findings[:3])
    return done


@cache
def deployed_once(kind):
    there, recipes = SEQUENCES[kind]
    return deploy(there, named(*recipes), ("allgather",))


@pytest.mark.parametrize("seed", range(len(SEQUENCES)))
def test_random_sequences_are_valid_all_the_way(seed, tmp_path):
    assert set(sequence(seed, tmp_path, through_files=True)) - {"refused"}


@pytest.mark.slow
def test_sixty_random_sequences_end_valid(tmp_path):
    done = [
        action for seed in range(60) for action in sequence(seed, tmp_path, through_files=False)
    ]
    counts = {action: done.count(action) for action in set(done)}
    assert counts["repair"] > 90
    assert counts["rewire"] > 30
    assert counts["restore"] > 9
