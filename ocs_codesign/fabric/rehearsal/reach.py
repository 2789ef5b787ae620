"""How switches are reached: a socket of an agent, or a command such as ``ssh admin@{switch}``."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, final

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.fabric.rehearsal.agent import CONFIG, SHOW
from ocs_codesign.fabric.rehearsal.controller import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ocs_codesign.fabric.rehearsal.controller import Ask


SPELLINGS: dict[str, dict[str, str]] = {
    "2269": {},
    "generated": {CONFIG: "config ocs-cross-connect", SHOW: "show ocs-cross-connect"},
}
"""How drafts of SONiC spell our lines: its pull request 2269, and what its generator of commands
makes of the same tables. None was seen on a device."""

_MAX_BYTES = 2**20
_KEYS = ("switches", "reach", "socket", "spelling", "drain", "timeout_s")


@final
@dataclass(frozen=True, slots=True)
class SwitchFile:
    """The file of switches: what reaches those it names and all others, and the drain hook.

    A way is ``("reach", COMMAND)`` or ``("socket", PATH)`` with ``{switch}`` for the name.
    """

    default: tuple[str, str] | None
    ways: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    spelling: Mapping[str, str] = field(default_factory=dict)
    drain: str | None = None
    timeout_s: float = 30.0

    def asks(self, switches: Sequence[str]) -> dict[str, Ask]:
        """What asks each switch; ValueError for one that the file does not say how to reach."""
        found = {}
        for switch in switches:
            way = self.ways.get(switch, self.default)
            if way is None:
                raise ValueError(f"the file of switches does not say how {switch} is reached")
            found[switch] = self._ask(switch, *way)
        return found

    def _ask(self, switch: str, kind: str, text: str) -> Ask:
        def ask(line: str) -> str:
            for ours, theirs in self.spelling.items():
                line = line.replace(ours, theirs, 1)
            try:
                if kind == "socket":
                    return _by_socket(Path(text.replace("{switch}", switch)), line, self.timeout_s)
                words = [word.replace("{switch}", switch) for word in shlex.split(text)]
                return _by_command([*words, line], self.timeout_s)
            except (OSError, ValueError, subprocess.TimeoutExpired) as error:
                why = (
                    f"nothing in {self.timeout_s:g} s"
                    if "imeout" in type(error).__name__
                    else error
                )
                raise Refused(f"switch {switch} does not answer: {why}") from None

        return ask


def _by_socket(place: Path, line: str, timeout_s: float) -> str:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(timeout_s)
        client.connect(str(place))
        client.sendall(json.dumps({"command": line}).encode() + b"\n")
        with client.makefile("rb") as lines:
            answer = lines.readline()
    if not answer:
        raise OSError("it closed the connection")
    return str(json.loads(answer)["answer"])


def _by_command(words: list[str], timeout_s: float) -> str:
    done = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode == 255 and words[0] == "ssh":
        raise OSError(done.stderr.strip()[:200] or "ssh failed")
    text = done.stdout.strip()
    return text if not done.returncode else (done.stderr.strip() or text or "it failed")[:400]


def read_switch_file(path: str | Path) -> SwitchFile:
    """Read a file of switches, YAML or JSON; ValueError with the key and the rule."""
    name = str(path)
    data = read_limited(Path(path), _MAX_BYTES)
    value = read_plain_text(data, name, is_json=name.endswith(".json")).value
    if not isinstance(value, dict) or set(value) - set(_KEYS):
        raise ValueError(f"{name}: the keys are of {', '.join(_KEYS)}")
    switches = value.get("switches", {})
    if not isinstance(switches, dict):
        raise ValueError(f"{name}: switches is a mapping from names to reach or socket")
    spelling = str(value.get("spelling", "2269"))
    if spelling not in SPELLINGS:
        raise ValueError(f"{name}: spelling must be one of {', '.join(SPELLINGS)}")
    drain = value.get("drain")
    try:
        timeout_s = float(value.get("timeout_s", 30.0))
    except (TypeError, ValueError):
        timeout_s = 0.0
    if not 0 < timeout_s <= 3600:
        raise ValueError(f"{name}: timeout_s must be seconds, above 0 and at most 3600")
    ways = {str(each): _way(name, way) for each, way in switches.items()}
    default = _way(name, value) if {"reach", "socket"} & set(value) else None
    found = {each: way for each, way in ways.items() if way is not None}
    return SwitchFile(
        default, found, SPELLINGS[spelling], None if drain is None else str(drain), timeout_s
    )


def _way(name: str, value: object) -> tuple[str, str]:
    for kind in ("reach", "socket"):
        text = value.get(kind) if isinstance(value, dict) else None
        if isinstance(text, str) and text.strip():
            return kind, text
    raise ValueError(f"{name}: a switch is reached by reach: COMMAND or socket: PATH")
