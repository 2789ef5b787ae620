"""Mirrors of a switch in Linux: redirects between the interfaces of a network namespace."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


FIRST_PORT, PIECE = 20_000, 2**18
"""The TCP port of link 0, and the most bytes that one call moves."""
BURST_BYTES = 17_600
"""What tbf lets through at once after a pause: a packet as large as they are made, and some."""
PORT = re.compile(r"\d+[AB]?")
FIRST = 10
"""Redirects of circuits have a preference from here on, by the port that light enters, so that a
list of them says which; those before it are faults of a rehearsal."""
DARK = "dark"
"""The interface that swallows what a fault takes."""
_GET_FLAGS, _RUNNING = 0x8913, 0x40
_SHOWN = re.compile(r"filter .*?pref (\d+) u32|Redirect to device (\S+?)\)")


def batch(tool: Sequence[str], lines: Iterable[str], *, go_on: bool = False) -> str:
    """What ``ip`` or ``tc`` prints for many lines; RuntimeError if one fails and it must not."""
    text = "".join(f"{line}\n" for line in lines)
    if not text:
        return ""
    words = [*tool, *(["-force"] if go_on else []), "-batch", "-"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode and not go_on:
        raise RuntimeError(f"{' '.join(words)} failed: {done.stderr.strip()[:400]}")
    return done.stdout


def batches(work: Iterable[tuple[Sequence[str], Sequence[str]]]) -> None:
    """Batches that do not wait for each other, as many at a time as there are cores."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda each: batch(*each), work))


def preference(port: str) -> int:
    """The preference of the redirect of what enters a port."""
    return FIRST + 2 * int(port.rstrip("AB")) + port.endswith("B")


def redirect(port: str, to: str, number: int, side: str = "ingress") -> str:
    """The line for ``tc`` that sends on what enters (or leaves) a port."""
    return (
        f"filter add dev {port} {side} pref {number} protocol all u32 match u32 0 0 "
        f"action mirred egress redirect dev {to}"
    )


@final
class KernelLight:
    """The mirrors of the network namespace it is made in; light is dark for ``delta_s`` before a
    new circuit is lit.

    Both directions of a circuit are redirected, as mirrors do not know which way light goes.
    """

    def __init__(self, delta_s: float = 0.0) -> None:
        self.delta_s = delta_s

    def ports(self) -> dict[str, bool]:
        """Every port, and whether it has a carrier: asked in this process, as it is asked often."""
        found = {}
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            for _, name in socket.if_nameindex():
                if PORT.fullmatch(name):
                    row = fcntl.ioctl(asked, _GET_FLAGS, name.encode().ljust(40, b"\0"))
                    found[name] = bool(int.from_bytes(row[16:18], sys.byteorder) & _RUNNING)
        return found

    def mirrors(self) -> set[str]:
        """The circuits that are redirected, by what the kernel says."""
        names = list(self.ports())
        by_number = {preference(name): name for name in names}
        shown = batch(["tc"], (f"filter show dev {name} ingress" for name in names), go_on=True)
        found, number = set(), 0
        for match in _SHOWN.finditer(shown):
            if match[1] is not None:
                number = int(match[1])
            elif number in by_number and match[2] in names:
                here, there = by_number[number], match[2]
                a_side, b_side = sorted((here, there), key=_order)
                if here == a_side:
                    found.add(f"{a_side}-{b_side}")
        return found

    def turn(self, dark: Collection[str], lit: Collection[str]) -> None:
        """Take redirects down, wait, and set others up."""
        batch(["tc"], (line for name in dark for line in self.lines(name, "del")), go_on=True)
        if lit:
            time.sleep(self.delta_s)
            ways = [way for name in lit for way in self.lines(name, "del")]
            batch(["tc"], ways, go_on=True)
            batch(["tc"], (line for name in lit for line in self.lines(name)))

    @staticmethod
    def lines(name: str, what: str = "add") -> list[str]:
        """What ``tc`` is told to light a circuit, or with ``del`` to let it go dark."""
        a_side, b_side = name.split("-")
        pairs = ((a_side, b_side), (b_side, a_side))
        if what == "del":
            return [f"filter del dev {here} ingress pref {preference(here)}" for here, _ in pairs]
        return [redirect(here, there, preference(here)) for here, there in pairs]


def _order(port: str) -> tuple[str, int]:
    """Side A before side B, lower numbers first."""
    return port.lstrip("0123456789"), int(port.rstrip("AB"))
