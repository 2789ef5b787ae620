"""The controller: from whatever switches hold to a target, stage by stage, without a journal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, final

from ocs_codesign.core.shown import shown
from ocs_codesign.fabric.rehearsal.agent import (
    CONFIG,
    SHOW,
    Agent,
    TableLight,
    ends,
    in_order,
    sharing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Ask: TypeAlias = Callable[[str], str]
    """What a switch answers to a line: ``ok``, a table, or why it refuses; Refused for nothing."""

    State: TypeAlias = Mapping[str, frozenset[str]]
    """What every switch holds: ids of circuits by the name of the switch."""


class Refused(Exception):  # noqa: N818
    """The controller stops before it does harm; the sentence says at which switch and circuit."""


@final
@dataclass(frozen=True, slots=True)
class HeldThere:
    """What a switch holds at ports of the bundle: told, lit, and the states of both sides.

    ``foreign`` is what is told or lit at other ports, or at one of ours and one of others.
    """

    intent: frozenset[str]
    status: Mapping[str, tuple[str, str]]
    foreign: frozenset[str]

    def stale(self) -> frozenset[str]:
        """What is lit and not intended."""
        return frozenset(self.status) - self.intent


@final
@dataclass(slots=True)
class Controller:
    """What reaches the switches of a bundle, the ports of its cables there, and what is said.

    ``drain`` is called with a stage's number before light changes, and ``resume`` after; ``hands``
    with the number of a stage after whose deletes cable ends move. ``commands`` are all that were
    given, as switch and line. Lines take the place of ours by ``spelling``.
    """

    switches: Mapping[str, Ask]
    ports: Mapping[str, frozenset[str]]
    say: Callable[[str], None] = lambda _: None
    drain: Callable[[int, State], None] = lambda _, __: None
    resume: Callable[[int, State], None] = lambda _, __: None
    wait_s: float = 5.0
    commands: list[tuple[str, str]] = field(default_factory=list)

    def held(self, switch: str) -> HeldThere:
        """What a switch says that it holds."""
        told = table_of(self._asked(switch, f"{SHOW} config"), switch)
        status = table_of(self._asked(switch, f"{SHOW} status"), switch)
        ours = {name for name in {*told, *status} if ends(name) <= self.ports[switch]}
        states = {name: row for name, row in status.items() if name in ours}
        lit = [
            name for name, row in states.items() if row and (name in told or row[0] != "blocked")
        ]
        return HeldThere(
            frozenset(told) & ours,
            {name: (states[name][0], states[name][-1]) for name in lit},
            frozenset({*told, *status} - ours),
        )

    def control(self, chains: Sequence[Sequence[State]]) -> int:
        """Lead the switches along the first chain of states that they are on; where they were.

        Raises Refused for switches that hold no state of any chain, that do not answer or refuse,
        and circuits that are not tuned.
        """
        held = {switch: self.held(switch) for switch in self.switches}
        intent = {switch: each.intent for switch, each in held.items()}
        for chain in chains:
            position = position_of(intent, chain)
            if position is not None:
                break
        else:
            raise Refused(_nearest(intent, chains))
        self._check_foreign(held, chain[position:])
        if position:
            self._checked(chain[position], intent)
        for number, (before, after) in enumerate(pairwise(chain[position:]), position + 1):
            self._stage(number, before, after)
        self._finished(chain[-1])
        return position

    def _checked(self, state: State, intent: State) -> None:
        """Set up once more what the last finished stage left dark and the switches still hold."""
        for switch in self.switches:
            self._tuned(switch, state[switch] & intent[switch])

    def _stage(self, number: int, before: State, after: State) -> None:
        changed = [switch for switch in self.switches if before[switch] != after[switch]]
        gone = {switch: before[switch] - after[switch] for switch in changed}
        self.drain(number, gone)
        for switch in changed:
            self.reconcile(switch, after[switch])
        for switch in changed:
            self._tuned(switch, after[switch])
        self.resume(number, {switch: after[switch] - before[switch] for switch in changed})

    def _finished(self, target: State) -> None:
        for switch in self.switches:
            self.reconcile(switch, target[switch])
            self._tuned(switch, target[switch])

    def reconcile(self, switch: str, want: frozenset[str]) -> None:
        """Lead one switch to hold what is wanted; no circuit that stays is named.

        What is lit and not intended is adopted, then deleted; a wanted one is only adopted.
        """
        held = self.held(switch)
        intent = self._adopted(switch, held, held.stale() - want, want)
        if intent - want:
            self._told(switch, f"{CONFIG} delete {','.join(in_order(intent - want))}")
        if want - intent:
            self._told(switch, f"{CONFIG} add {','.join(in_order(want - intent))} safe")

    def _adopted(
        self, switch: str, held: HeldThere, stale: frozenset[str], want: frozenset[str]
    ) -> set[str]:
        """What is intended once the stale ones were adopted and deleted."""
        intent = set(held.intent)
        blinking = {name: in_order(sharing(name, want)) for name in stale if sharing(name, want)}
        for name in in_order(blinking):
            self.say(
                f"{switch}: stale {name} is on a port of {','.join(blinking[name])}: it blinks"
            )
        if stale:
            self._told(switch, f"{CONFIG} add {','.join(in_order(stale))} update")
            intent -= {other for name in stale for other in sharing(name, intent)}
            self._told(switch, f"{CONFIG} delete {','.join(in_order(stale))}")
        return intent

    def _tuned(self, switch: str, want: frozenset[str]) -> None:
        """Wait until both sides of all are tuned, setting up once more those that are not."""
        for is_last in (False, True):
            until = time.monotonic() + self.wait_s
            while True:
                held = self.held(switch)
                status = held.status
                dark = {name: status.get(name, ("dark", "dark")) for name in want}
                dark = {name: row for name, row in dark.items() if row != ("tuned", "tuned")}
                if not dark:
                    return
                if "tuning" not in {side for row in dark.values() for side in row}:
                    break
                if time.monotonic() > until:
                    break
                time.sleep(0.02)
            if not is_last:
                stale = frozenset(name for name in held.stale() if sharing(name, dark))
                intent = self._adopted(switch, held, stale, want)
                if intent & set(dark):
                    self._told(switch, f"{CONFIG} delete {','.join(in_order(intent & set(dark)))}")
                self._told(switch, f"{CONFIG} add {','.join(in_order(dark))} safe")
        said = (f"{switch} {name} is {'/'.join(dark[name])}" for name in in_order(dark))
        raise Refused(f"not tuned: {', '.join(said)}")

    def _check_foreign(self, held: Mapping[str, HeldThere], states: Iterable[State]) -> None:
        """Refuse before any command what needs a port that a stranger's circuit is on."""
        for state in states:
            for switch, want in state.items():
                for name in in_order(want):
                    others = in_order(sharing(name, held[switch].foreign))
                    if others:
                        raise Refused(
                            f"{switch} {name} needs a port of {','.join(others)}, which has a port "
                            "that is none of this bundle: whoever made it has to delete it"
                        )

    def _asked(self, switch: str, line: str) -> str:
        return self.switches[switch](line)

    def _told(self, switch: str, line: str) -> None:
        self.commands.append((switch, line))
        self.say(f"{switch}: {line}")
        answer = self._asked(switch, line)
        if answer not in ("", "ok"):
            raise Refused(f"switch {switch} refuses {shown(line)}: {answer}")


def table_of(text: str, switch: str) -> dict[str, tuple[str, ...]]:
    """Ids and what stands after both sides in a table of ``show``; Refused if it is none."""
    rows: dict[str, tuple[str, ...]] = {}
    heading = False
    for line in text.splitlines():
        words = line.replace("|", " ").split()
        heading = heading or words[:1] == ["id"]
        if len(words) >= 3 and words[0] == f"{words[1]}-{words[2]}":
            rows[words[0]] = tuple(words[3:5])
    if not heading and not rows:
        raise Refused(f"switch {switch} shows no table of cross-connects: {shown(text[:200])}")
    return rows


def position_of(intent: State, chain: Sequence[State]) -> int | None:
    """The last stage after which what is intended lies between two states; None if there is none.

    >>> chain = [{"s": frozenset({"1A-1B"})}, {"s": frozenset({"1A-2B"})}]
    >>> [position_of({"s": frozenset(held)}, chain) for held in ({"1A-2B"}, set(), {"2A-1B"})]
    [1, 0, None]
    """
    for number in range(len(chain) - 1, -1, -1):
        state, after = chain[number], chain[min(number + 1, len(chain) - 1)]
        if all(
            state[each] & after[each] <= held <= state[each] | after[each]
            for each, held in intent.items()
        ):
            return number
    return None


def _nearest(intent: State, chains: Sequence[Sequence[State]]) -> str:
    def wrong(state: State) -> list[str]:
        pairs = ((switch, intent[switch] ^ state[switch]) for switch in sorted(intent))
        return [f"{switch} {name}" for switch, ids in pairs for name in in_order(ids)]

    states = [
        (len(wrong(state)), at, n) for n, c in enumerate(chains) for at, state in enumerate(c)
    ]
    _, number, chain = min(states)
    names = ", ".join(wrong(chains[chain][number])[:20])
    return (
        "the switches hold no state of this plan; nearest is that after stage "
        f"{number}, but for {names}"
    )


def asked_only(controller: Controller) -> Controller:
    """The same with switches in memory that hold what the real ones do: commands touch nothing."""
    switches: dict[str, Ask] = {}
    for switch in controller.switches:
        held = controller.held(switch)
        ids = held.intent | frozenset(held.status) | held.foreign
        ports = controller.ports[switch] | {end for name in ids for end in ends(name)}
        failed = {
            end
            for name, row in held.status.items()
            for end, state in zip(name.split("-"), row, strict=True)
            if state == "failed"
        }
        lit = [name for name, row in held.status.items() if row == ("tuned", "tuned")]
        agent = Agent(TableLight(ports, {*lit, *held.foreign}, failed))
        agent.intent = set(held.intent | held.foreign)
        switches[switch] = agent.answer
    return Controller(switches, controller.ports, controller.say, wait_s=0.0)
