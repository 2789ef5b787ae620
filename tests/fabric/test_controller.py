"""The agent of a switch and the controller, on switches in memory."""

from __future__ import annotations

import json
import random
import threading
from functools import partial

import pytest
from bundle_samples import TWO, named, small_deployment, small_fabric, written

from ocs_codesign.fabric.deployments.day_two import repaired
from ocs_codesign.fabric.deployments.deploy import Failures, deploy
from ocs_codesign.fabric.rehearsal.agent import CONFIG, SHOW, Agent, TableLight, serve, sharing
from ocs_codesign.fabric.rehearsal.controller import Controller, Refused, asked_only, position_of
from ocs_codesign.fabric.rehearsal.reach import read_switch_file
from ocs_codesign.fabric.rehearsal.targets import chains_to, ports_of_cables, work_chain
from ocs_codesign.fabric.wiring import Port
from ocs_codesign.faces.cli import main

PORTS = [f"{number}{side}" for number in range(1, 11) for side in "AB"]
RING = ["1A-2B", "2A-3B", "3A-4B", "4A-5B", "5A-6B", "6A-7B", "7A-8B", "8A-1B"]
NEXT = ["1A-3B", "2A-4B", "3A-5B", "4A-6B", "5A-7B", "6A-8B", "7A-1B", "8A-2B"]
OURS = frozenset(port for name in RING for port in name.split("-"))


def ids(names):
    return ",".join(names)


def switch(intent=(), lit=None, failed=(), ports=PORTS):
    agent = Agent(TableLight(ports, intent if lit is None else lit, failed))
    agent.intent = set(intent)
    return agent


@pytest.mark.parametrize(
    ("lines", "answers", "intent", "lit"),
    [
        (["add 1A-4B safe"], ["port in use: 1A-2B,3A-4B"], RING, RING),
        (["add 1A-4B update"], ["ok"], ["1A-4B", *(RING[1:2] + RING[3:])], None),
        (["add 1A-1B,2A-2B overwrite"], ["ok"], ["1A-1B", "2A-2B"], None),
        (["add 1A-2A safe"], ["1A-2A: not of the form 1A-2B"], RING, RING),
        (["add 1A-11B safe"], ["no port: 11B"], RING, RING),
        (["add 9A-9B,9A-10B"], ["port given twice: 9A-9B"], RING, RING),
        (["delete 1A-2B,1A-3B"], ["not configured: 1A-3B"], RING, RING),
        (["delete 1A-2B", "add 1A-2B safe"], ["ok", "ok"], RING, None),
        (["add 1A-2B safe"], ["ok"], RING, RING),
    ],
)
def test_lines_are_all_or_nothing(lines, answers, intent, lit):
    agent = switch(RING)
    assert [agent.answer(f"{CONFIG} {line}") for line in lines] == answers
    assert agent.intent == set(intent)
    assert agent.lit() == set(intent if lit is None else lit)


def test_a_blocked_port_is_dark_and_still_intended():
    agent = switch(RING)
    for port, state in (("1A", "force_blocked"), ("1A", "normal"), ("2B", "force_blocked")):
        assert agent.answer(f"config ocs port state {port} {state}") == "ok"
    assert (agent.intent, agent.lit()) == (set(RING), set(RING[1:]))
    assert "1A-2B         1A            2B            blocked       blocked" in agent.table(
        with_status=True
    )


def test_safe_sees_what_nobody_intends():
    agent = switch(RING, [*RING, "9A-10B"])
    assert agent.answer(f"{CONFIG} add 9A-9B safe") == "port in use: 9A-10B"
    assert agent.answer(f"{CONFIG} delete 9A-10B") == "not configured: 9A-10B"
    assert agent.lit() == {*RING, "9A-10B"}


def test_patches_are_all_or_nothing():
    table = "/OCS_CROSS_CONNECT"
    agent = switch(RING)

    def add(name):
        a_side, b_side = name.split("-")
        value = {"a_side": a_side, "b_side": b_side}
        return {"op": "add", "path": f"{table}/{name}", "value": value}

    gone = {"op": "remove", "path": f"{table}/1A-1B"}
    assert agent.answer([gone, add("1A-3B")]) == "not configured: 1A-1B"
    assert agent.answer([add("1A-3B")]) == "port in use: 1A-2B,1A-3B"
    assert agent.intent == agent.lit() == set(RING)
    gone["path"] = f"{table}/1A-2B"
    assert agent.answer([gone, add("1A-2B")]) == "ok"
    assert agent.answer([{"op": "remove", "path": table}]) == "ok"
    assert agent.intent == agent.lit() == set()
    rows = {"op": "add", "path": table, "value": {"1A-2B": {"a_side": "1A", "b_side": "2B"}}}
    assert agent.answer([rows]) == "ok"
    assert agent.lit() == {"1A-2B"}
    assert agent.answer([{"op": "test", "path": table}]).startswith("no such operation")


def test_an_agent_that_was_killed_lights_what_is_intended(tmp_path):
    light = TableLight(PORTS, ["9A-10B"])
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"intent": RING, "blocked": ["8A"]}))
    agent = Agent(light, path)
    assert agent.lit() == {*RING[:-1], "9A-10B"}
    assert agent.intent == set(RING)


def controller_of(agents, ports=frozenset(PORTS), **more):
    asks = {name: agent.answer for name, agent in agents.items()}
    each = ports if isinstance(ports, dict) else dict.fromkeys(agents, ports)
    return Controller(asks, each, wait_s=0.0, **more)


RECONCILED = {
    "nothing": (RING, None, RING, []),
    "rotate": (RING, None, NEXT, [f"delete {ids(RING)}", f"add {ids(NEXT)} safe"]),
    "from dark": ([], None, RING, [f"add {ids(RING)} safe"]),
    "stale, free": (RING, [*RING, "9A-10B"], RING, ["add 9A-10B update", "delete 9A-10B"]),
    "stale in the way": (
        RING[:2] + RING[3:],
        RING,
        [*RING[:2], "3A-9B", *RING[3:]],
        ["add 3A-4B update", "delete 3A-4B", "add 3A-9B safe"],
    ),
    "stale, wanted": (RING[:-1], RING, RING, ["add 8A-1B safe"]),
    "intended, dark": (RING, RING[:5] + RING[6:], RING, ["delete 6A-7B", "add 6A-7B safe"]),
}


@pytest.mark.parametrize("case", RECONCILED)
def test_a_switch_is_led_to_what_is_wanted(case):
    intent, lit, want, lines = RECONCILED[case]
    agent = switch(intent, lit)
    controller = controller_of({"s": agent})
    want = frozenset(want)
    controller.reconcile("s", want)
    controller._tuned("s", want)
    assert [line for _, line in controller.commands] == [f"{CONFIG} {line}" for line in lines]
    assert agent.intent == agent.lit() == want
    controller.reconcile("s", want)
    assert len(controller.commands) == len(lines)


def test_what_is_stale_on_a_port_of_a_finished_stage_is_taken_down_first():
    agent = switch(RING, [*RING[:2], "3A-9B", *RING[3:]])
    controller = controller_of({"s": agent})
    assert controller.control([[{"s": frozenset()}, {"s": frozenset(RING)}]]) == 1
    lines = ["add 3A-9B update", "delete 3A-9B", "add 3A-4B safe"]
    assert [line for _, line in controller.commands] == [f"{CONFIG} {line}" for line in lines]
    assert agent.intent == agent.lit() == set(RING)


def test_strangers_are_not_touched():
    held = [*RING[:4], "9A-10B"]
    agent = switch(held)
    controller = controller_of({"s": agent}, OURS)
    controller.control([[{"s": frozenset()}, {"s": frozenset(RING)}]])
    assert controller.commands == [("s", f"{CONFIG} add {ids(RING[4:])} safe")]
    assert agent.lit() == {*RING, "9A-10B"}
    agent = switch(["5A-9B"])
    controller = controller_of({"s": agent}, OURS)
    with pytest.raises(Refused, match="5A-6B needs a port of 5A-9B"):
        controller.control([[{"s": frozenset()}, {"s": frozenset(RING)}]])
    assert (controller.commands, agent.lit()) == ([], {"5A-9B"})


def test_a_dead_port_is_set_up_once_more_then_named():
    agent = switch(failed=["3A"])
    controller = controller_of({"p0-s0": agent})
    with pytest.raises(Refused, match=r"^not tuned: p0-s0 3A-4B is failed/blocked$"):
        controller.control([[{"p0-s0": frozenset()}, {"p0-s0": frozenset(RING)}]])
    lines = [f"add {ids(RING)} safe", "delete 3A-4B", "add 3A-4B safe"]
    assert [line for _, line in controller.commands] == [f"{CONFIG} {line}" for line in lines]
    assert agent.lit() == {*RING[:2], *RING[3:]}


def test_a_switch_that_refuses_or_says_nothing_is_named():
    def refusing(line):
        return "no" if "delete" in line else switch(RING).answer(line)

    def silent(_):
        raise Refused("switch s does not answer: nothing in 30 s")

    chain = [{"s": frozenset(RING)}, {"s": frozenset(NEXT)}]
    for ask, words in ((refusing, "refuses .*delete.*: no"), (silent, "s does not answer")):
        with pytest.raises(Refused, match=words):
            Controller({"s": ask}, {"s": frozenset(PORTS)}).control([chain])
    with pytest.raises(Refused, match="shows no table"):
        Controller({"s": lambda _: "banner"}, {"s": frozenset(PORTS)}).control([chain])


def agents_of(deployment, state):
    switches = {each.name: each.num_ports for each in deployment.fabric.switches}
    return {
        name: switch(
            held, ports=[f"{n}{side}" for n in range(1, switches[name] + 1) for side in "AB"]
        )
        for name, held in state.items()
    }


def holds(agents):
    return {name: frozenset(agent.intent) for name, agent in agents.items()}


class Killed(Exception):  # noqa: N818
    pass


def three_stages():
    """Three switches that change one after the other; one circuit stays."""
    states = [{each: frozenset(RING) for each in "abc"}]
    turned = frozenset(["1A-3B", "2A-2B", "8A-1B"])
    for each in "abc":
        states.append({**states[-1], each: turned})
    return states


def test_killed_anywhere_it_goes_on_to_the_same_target():
    """Nor is a command given twice but the one that was under way; another run gives none."""
    chain = three_stages()
    whole = controller_of({each: switch(RING) for each in "abc"})
    whole.control([chain])
    assert len(whole.commands) == 6
    for stop in range(12):
        agents = {each: switch(RING) for each in "abc"}
        left = [stop // 2]

        def ask(agent, line, left=left, stop=stop):
            if line.startswith(CONFIG):
                left[0] -= 1
                if left[0] < 0:
                    if stop % 2:  # it was carried out, and nobody heard of it
                        agent.answer(line)
                    raise Killed
            return agent.answer(line)

        asks = {name: partial(ask, agent) for name, agent in agents.items()}
        first = Controller(asks, dict.fromkeys(agents, frozenset(PORTS)), wait_s=0.0)
        with pytest.raises(Killed):
            first.control([chain])
        second = controller_of(agents)
        second.control([chain])
        assert holds(agents) == chain[-1]
        done = first.commands[:-1] if stop % 2 == 0 else first.commands
        assert [*done, *second.commands] == whole.commands
        third = controller_of(agents)
        third.control([chain])
        assert third.commands == []


def test_kept_circuits_are_never_named_and_stages_come_one_by_one():
    deployment = small_deployment()
    chain = chains_to(deployment, "cube")[0]
    agents = agents_of(deployment, chain[0])
    stages = []
    controller = controller_of(
        agents,
        ports_of_cables(deployment),
        drain=lambda number, gone: stages.append((number, gone)),
    )
    assert controller.control([chain]) == 0
    assert [number for number, _ in stages] == list(range(1, len(chain)))
    for name, line in controller.commands:
        kept = chain[0][name] & chain[-1][name]
        assert not kept & set(line.split()[4].split(","))


def test_a_position_that_is_none_is_refused_before_any_command():
    deployment = small_deployment()
    chains = chains_to(deployment, "cube")
    agents = agents_of(deployment, chains[0][0])
    last = list(chains[0][0])[-1]
    agents[last].intent = set(chains[0][-1][last])
    gone = min(agents[min(agents)].intent)
    agents[min(agents)].intent.discard(gone)
    agents[min(agents)].intent.add("12A-12B")
    controller = controller_of(agents, {name: frozenset(PORTS) | {"12A", "12B"} for name in agents})
    with pytest.raises(Refused, match=r"nearest is that after stage .*12A-12B"):
        controller.control(chains)
    assert controller.commands == []


def test_a_question_touches_no_switch():
    agent = switch(RING, [*RING, "9A-10B"])
    chain = [{"s": frozenset(RING)}, {"s": frozenset(NEXT)}]
    asked = asked_only(controller_of({"s": agent}))
    asked.control([chain])
    real = controller_of({"s": agent})
    assert agent.intent == set(RING)
    real.control([chain])
    assert real.commands == asked.commands


@pytest.mark.parametrize(
    "lost",
    [
        Failures(("h1",)),
        Failures(ports=(Port("p0s0", "A", 3),)),
        Failures(switches=("p0s0",)),
        Failures(cables=("C00003",)),
    ],
)
def test_repairs_are_chains_with_hands_between(lost):
    after, _ = repaired(deploy(small_fabric(), named(TWO[0])), lost)
    chain, hands = work_chain(after)
    assert all("p0s0" not in state for state in chain) or not lost.switches
    assert bool(hands) == any(step.cable for step in after.work.steps)
    agents = agents_of(after, chain[0])
    controller_of(agents, ports_of_cables(after)).control([chain])
    assert holds(agents) == chain[-1]
    for state in chain:
        assert not any(sharing(name, held) for held in state.values() for name in held)


def test_a_position_is_the_last_that_fits():
    rng = random.Random(7)
    deployment = small_deployment()
    chain = chains_to(deployment, "cube")[0]
    for number in range(len(chain) - 1):
        before, after = chain[number], chain[number + 1]
        held = {
            name: (before[name] & after[name])
            | {each for each in before[name] ^ after[name] if rng.random() < 0.5}
            for name in before
        }
        assert position_of(held, chain) in (number, number + 1)
    assert position_of(chain[-1], chain) == len(chain) - 1


@pytest.fixture
def sockets(tmp_path):
    """Agents of all switches, which answer at sockets."""
    deployment = small_deployment()
    agents = agents_of(deployment, chains_to(deployment, "cube")[0][0])
    for name, agent in agents.items():
        threading.Thread(target=serve, args=(agent, tmp_path / f"{name}.sock"), daemon=True).start()
    bundle = written(deployment, tmp_path / "bundle")
    path = tmp_path / "switches.yaml"
    path.write_text(f"socket: {tmp_path}/{{switch}}.sock\ntimeout_s: 5\n")
    return agents, bundle, path


def run(capsys, *arguments):
    code = main([str(each) for each in arguments])
    return code, *capsys.readouterr()


def test_the_command_leads_switches_at_sockets(sockets, capsys):
    agents, bundle, path = sockets
    arguments = ("control", bundle, "--switches", path, "--to", "cube", "--json", "-")
    code, text, errors = run(capsys, *arguments, "--what-if")
    assert (code, errors) == (0, "")
    asked = json.loads(text)
    assert asked["reached"]
    assert asked["commands"]
    code, text, errors = run(capsys, *arguments)
    assert (code, errors) == (0, "")
    assert json.loads(text)["commands"] == asked["commands"]
    code, text, _ = run(capsys, *arguments)
    assert (code, json.loads(text)["commands"]) == (0, [])
    agents["p0s0"].light.failed.add(min(agents["p0s0"].intent).split("-")[0])
    code, text, _ = run(capsys, *arguments)
    assert (code, "is failed/blocked" in json.loads(text)["sentence"]) == (1, True)
    code, text, _ = run(capsys, *arguments[:4], "--work")
    assert code == 2


def test_a_file_of_switches_is_checked(tmp_path):
    path = tmp_path / "s.yaml"
    for text, words in (
        ("way: x\n", "the keys are of"),
        ("reach: 3\n", "reached by reach: COMMAND"),
        ("reach: ssh\nspelling: mine\n", "spelling must be one of"),
        ("reach: ssh\ntimeout_s: -1\n", "timeout_s must be seconds"),
        ("switches: [a]\n", "switches is a mapping"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=words):
            read_switch_file(path)
    path.write_text("switches: {a: {reach: 'echo {switch}'}}\nspelling: generated\n")
    reach = read_switch_file(path)
    assert reach.asks(["a"])["a"](f"{SHOW} config") == "a show ocs-cross-connect config"
    with pytest.raises(ValueError, match="does not say how b is reached"):
        reach.asks(["b"])
    path.write_text("socket: /nowhere\n")
    with pytest.raises(Refused, match="switch b does not answer"):
        read_switch_file(path).asks(["b"])["b"]("x")
