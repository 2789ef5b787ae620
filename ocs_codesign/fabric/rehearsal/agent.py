"""The agent of a switch: what it is told to hold, what is lit, and the interface between them."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


CONFIG = "config ocs cross-connect"
SHOW = "show ocs cross-connect"
TABLE = "/OCS_CROSS_CONNECT"
_ADD = re.compile(rf"{CONFIG} (add|delete) (\S+)(?: (update|safe|overwrite))?")
_PORT = re.compile(r"config ocs port state (\S+) (normal|force_blocked)")
MAX_REQUEST_BYTES = 2**22


class Light(Protocol):
    """The mirrors of a switch, by the ids of its circuits."""

    def ports(self) -> dict[str, bool]:
        """Every port by name, and whether it works."""
        ...

    def mirrors(self) -> set[str]:
        """The circuits that mirrors hold."""
        ...

    def turn(self, dark: Collection[str], lit: Collection[str]) -> None:
        """Take circuits down, then set others up."""
        ...


@final
class TableLight:
    """Mirrors that are a table in memory: what is asked of a switch without touching one."""

    def __init__(
        self, ports: Iterable[str], held: Iterable[str] = (), failed: Collection[str] = ()
    ) -> None:
        self.held, self.failed, self.names = set(held), set(failed), list(ports)

    def ports(self) -> dict[str, bool]:
        """Every port, and whether it is not among those that failed."""
        return {name: name not in self.failed for name in self.names}

    def mirrors(self) -> set[str]:
        """The table."""
        return set(self.held)

    def turn(self, dark: Collection[str], lit: Collection[str]) -> None:
        """Change the table."""
        self.held = (self.held - set(dark)) | set(lit)


def in_order(ids: Iterable[str]) -> list[str]:
    """Circuits in order of their ports, whose names begin with numbers."""
    return sorted(ids, key=lambda name: [int(end.rstrip("AB")) for end in name.split("-")])


def ends(name: str) -> set[str]:
    """The two ports of a circuit."""
    return set(name.split("-"))


def sharing(name: str, others: Iterable[str]) -> set[str]:
    """Those of others that need a port of a circuit."""
    return {other for other in others if other != name and ends(other) & ends(name)}


@final
class Agent:
    """A switch that is told by lines or patches, all or nothing, and says what is really lit.

    ``intent`` is what it was told to hold. It is in a file before any light changes, so that an
    agent that was killed lights what is intended and dark when it comes back. What is lit and not
    intended is shown, and nothing else is done to it.

    >>> agent = Agent(TableLight(["1A", "1B", "2A", "2B"]))
    >>> agent.answer("config ocs cross-connect add 1A-2B safe")
    'ok'
    >>> agent.answer("config ocs cross-connect add 2A-2B safe")
    'port in use: 1A-2B'
    """

    def __init__(self, light: Light, path: Path | None = None, intent: Iterable[str] = ()) -> None:
        self.light, self.path = light, path
        self.intent, self.blocked = set(intent), set[str]()
        if path is not None and path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            self.intent, self.blocked = set(kept["intent"]), set(kept["blocked"])
        self._shine()

    def answer(self, request: str | list[dict[str, Any]]) -> str:
        """What a line or a JSON patch leads to: ``ok``, a table, or why it was refused."""
        if isinstance(request, list):
            return self._patched(request)
        line = " ".join(request.split())
        if line in (f"{SHOW} config", f"{SHOW} status"):
            return self.table(with_status=line.endswith("status"))
        port = _PORT.fullmatch(line)
        if port is not None:
            return self._port_state(port[1], is_blocked=port[2] == "force_blocked")
        told = _ADD.fullmatch(line)
        if told is None or (told[1] == "delete" and told[3]):
            return f"no such command: {line[:200]}"
        ids = told[2].split(",")
        if told[1] == "delete":
            missing = [name for name in ids if name not in self.intent]
            return self._hold(
                self.intent - set(ids), f"not configured: {','.join(missing)}", missing
            )
        return self._added(ids, told[3] or "update")

    def lit(self) -> set[str]:
        """Circuits that light can cross: a mirror holds them and both ports work."""
        return self._lit(self.light.mirrors(), self.light.ports())

    @staticmethod
    def _lit(mirrors: set[str], works: dict[str, bool]) -> set[str]:
        return {name for name in mirrors if all(works.get(end) for end in ends(name))}

    def table(self, *, with_status: bool) -> str:
        """What ``show`` says: the intent, or the status of whatever is intended or lit."""
        columns = ["id", "a_side", "b_side"]
        if not with_status:
            rows = [[name, *name.split("-")] for name in in_order(self.intent)]
        else:
            columns += ["a_side_status", "b_side_status"]
            works, mirrors = self.light.ports(), self.light.mirrors()
            lit = self._lit(mirrors, works)
            rows = [
                [
                    name,
                    *name.split("-"),
                    *(_status(end, name in lit, works) for end in name.split("-")),
                ]
                for name in in_order(self.intent | mirrors)
            ]
        return "\n".join(
            " ".join(f"{cell:<13}" for cell in row).rstrip() for row in [columns, *rows]
        )

    def _added(self, ids: list[str], mode: str) -> str:
        ports = self.light.ports()
        for name in ids:
            rule = self._form(name, ports)
            if rule:
                return rule
            if sharing(name, ids) or ids.count(name) > 1:
                return f"port given twice: {name}"
        mirrors = self.light.mirrors()
        others = {o for name in ids for o in sharing(name, self.intent | mirrors)}
        if mode == "safe":
            return self._hold(
                self.intent | set(ids), f"port in use: {','.join(in_order(others))}", others
            )
        gone = self.intent | mirrors if mode == "overwrite" else others
        return self._hold((self.intent - gone) | set(ids), gone=gone - set(ids))

    @staticmethod
    def _form(name: str, ports: Collection[str]) -> str | None:
        """Why a text is no circuit of a switch with these ports."""
        a_side, _, b_side = name.partition("-")
        form = r"\d+A-\d+B" if any(port[-1] == "A" for port in ports) else r"\d+-\d+"
        if re.fullmatch(form, name) is None or a_side == b_side:
            return f"{name}: not of the form {'1A-2B' if 'A' in form else '1-2'}"
        missing = [end for end in (a_side, b_side) if end not in ports]
        return f"no port: {','.join(missing)}" if missing else None

    def _patched(self, patch: list[dict[str, Any]]) -> str:
        """Operations on the table of CONFIG_DB (RFC 6902), all or nothing."""
        want, ports = set(self.intent), self.light.ports()
        for each in patch:
            path, added = str(each.get("path")), each.get("op") in ("add", "replace")
            if not added and each.get("op") != "remove":
                return f"no such operation: {each.get('op')}"
            value = each.get("value")
            rows = {path.removeprefix(f"{TABLE}/"): value}
            if path == TABLE:
                rows = value if added and isinstance(value, dict) else dict.fromkeys(want)
                want = set()
            elif not path.startswith(f"{TABLE}/"):
                return f"no such path: {path[:200]}"
            for name, row in rows.items():
                sides = dict(zip(("a_side", "b_side"), name.split("-"), strict=False))
                if added and (self._form(name, ports) or row != sides):
                    return self._form(name, ports) or f"{name}: its sides must be those of its id"
                if not added and path != TABLE and name not in want:
                    return f"not configured: {name}"
            want = want | set(rows) if added else want - set(rows)
        clash = next((name for name in in_order(want) if sharing(name, want)), None)
        if clash is not None:
            return f"port in use: {clash},{','.join(in_order(sharing(clash, want)))}"
        taken = {o for name in want - self.intent for o in sharing(name, self.light.mirrors())}
        return self._hold(want, gone=taken)

    def _port_state(self, port: str, *, is_blocked: bool) -> str:
        if port not in self.light.ports():
            return f"no port: {port}"
        self.blocked = self.blocked | {port} if is_blocked else self.blocked - {port}
        return self._hold(self.intent)

    def _hold(
        self,
        want: set[str],
        refusal: str = "",
        refused: Collection[str] = (),
        gone: Collection[str] = (),
    ) -> str:
        """Write the intent, then change the light; nothing of it if something is refused."""
        if refused:
            return refusal
        gone = {*gone, *(self.intent - want)}
        self.intent = want
        if self.path is not None:
            text = json.dumps({"intent": in_order(want), "blocked": sorted(self.blocked)})
            part = self.path.with_suffix(".part")
            with part.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            part.rename(self.path)
        self._shine(gone)
        return "ok"

    def _shine(self, gone: Collection[str] = ()) -> None:
        """Light what is intended, is not blocked, and finds its ports free and working."""
        mirrors, works = self.light.mirrors(), self.light.ports()
        dark = {name for name in mirrors if name in gone or ends(name) & self.blocked}
        left = mirrors - dark
        new = {
            name
            for name in self.intent - left
            if not ends(name) & self.blocked and all(works.get(end) for end in ends(name))
            if not sharing(name, left)
        }
        if dark or new:
            self.light.turn(in_order(dark), in_order(new))


def _status(end: str, is_lit: bool, works: dict[str, bool]) -> str:
    if not works.get(end):
        return "failed"
    return "tuned" if is_lit else "blocked"


def serve(agent: Agent, place: Path) -> None:
    """Answer at a unix socket, a line of JSON a request and one a reply, one after the other.

    ``{"command": TEXT}`` or ``{"patch": [...]}`` is answered by ``{"answer": TEXT}``.
    """
    place.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen(16)
        while True:
            try:
                with server.accept()[0] as client, client.makefile("rb") as lines:
                    for line in iter(lambda: lines.readline(MAX_REQUEST_BYTES), b""):
                        client.sendall(
                            json.dumps({"answer": _answered(agent, line)}).encode() + b"\n"
                        )
            except OSError:
                continue  # who asked has gone


def _answered(agent: Agent, line: bytes) -> str:
    try:
        asked = json.loads(line)
        return agent.answer(asked["patch"] if "patch" in asked else str(asked["command"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return 'a request is {"command": TEXT} or {"patch": [...]} in a line'
