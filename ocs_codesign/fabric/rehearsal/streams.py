"""Streams between hosts of a rehearsal while circuits change: drained first, nothing is lost; else
what is lost is counted."""

from __future__ import annotations

import array
import fcntl
import select
import socket
import struct
import termios
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocs_codesign.fabric.rehearsal.kernel import FIRST_PORT, PIECE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from multiprocessing.connection import Connection

    from ocs_codesign.fabric.rehearsal.network import EmulatedFabric, LinkWay


_SECONDS, _BUFFER = 120.0, 2**16


def _words(stream: int, first: int, count: int) -> bytes:
    """Bytes of a stream from one on: words that count up, from another number in each stream."""
    low, high = first // 8, (first + count + 7) // 8
    words = np.arange(low, high, dtype=np.uint64) + np.uint64(stream << 40)
    return words.tobytes()[first - 8 * low : first - 8 * low + count]


def leave_nothing(each: socket.socket) -> None:
    """Close a connection without a word more of what it still had to send."""
    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    each.close()


class Streams:
    """The streams of a host, which run until they are drained; what is asked comes by a pipe."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.servers: dict[int, socket.socket] = {}
        self.out: dict[int, socket.socket] = {}
        self.into: dict[int, socket.socket] = {}
        self.sent: dict[int, int] = {}
        self.received: dict[int, int] = {}
        self.num_wrong = 0
        self.draining: set[int] = set()
        self.awaited: set[int] | None = None

    def run(self) -> None:
        """Send and receive, and do what is asked, until ``stop``."""
        while True:
            reading: list[Any] = [*self.into.values(), self.pipe]
            writing = [each for link, each in self.out.items() if link not in self.draining]
            ready = select.select(reading, writing, [], 0.02 if self.awaited else 1.0)
            for link in [link for link, each in self.into.items() if each in ready[0]]:
                self._receive(link)
            for link in [link for link, each in self.out.items() if each in ready[1]]:
                data = _words(link, self.sent[link], _BUFFER)
                self.sent[link] += self.out[link].send(data)
            for link in [link for link in self.draining if not _unsent(self.out[link])]:
                self.draining.discard(link)
                self.out.pop(link).close()
            if self.awaited is not None and not self.awaited & {*self.out, *self.into}:
                self.awaited = None
                self.pipe.send((self.sent, self.received, self.num_wrong))
            if self.pipe in ready[0] and not self._did(*self.pipe.recv()):
                return

    def _did(self, what: str, *rest: Any) -> bool:
        """Whether it goes on after what it was asked."""
        if what == "listen":
            for link, address in rest[0].items():
                self.servers[link] = socket.create_server((address, FIRST_PORT + link))
        elif what == "connect":
            for link, address in rest[0].items():
                self.out[link] = client = socket.socket()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
                client.settimeout(_SECONDS)
                client.connect((address, FIRST_PORT + link))
                client.setblocking(False)
                self.sent[link] = 0
        elif what == "accept":
            for link, server in self.servers.items():
                server.settimeout(_SECONDS)
                self.into[link] = server.accept()[0]
                self.into[link].setblocking(False)
                self.received[link] = 0
                server.close()
            self.servers = {}
        elif what == "drain":  # answered once they have ended here
            self.draining |= self.out.keys() & rest[0]
            self.awaited = {*rest[0]}
            return True
        elif what == "cut":  # before the other ends are, which would be told of it
            for link in self.out.keys() & rest[0]:
                leave_nothing(self.out.pop(link))
        elif what == "give up":
            for link in self.into.keys() & rest[0]:
                self._give_up(link)
        self.pipe.send(None)
        return what != "stop"

    def _give_up(self, link: int) -> None:
        """Count what had arrived; one that waited for its end would be answered on new light."""
        with suppress(BlockingIOError):
            while link in self.into:
                self._receive(link)
        if link in self.into:
            leave_nothing(self.into.pop(link))

    def _receive(self, link: int) -> None:
        try:
            data = self.into[link].recv(PIECE)
        except ConnectionResetError:  # cut at its other end, which new light of its link leads to
            data = b""
        if not data:
            self.into.pop(link).close()
        self.num_wrong += data != _words(link, self.received[link], len(data))
        self.received[link] += len(data)


def _unsent(each: socket.socket) -> int:
    """Bytes that the other end has not acknowledged."""
    number = array.array("i", [0])
    fcntl.ioctl(each.fileno(), termios.TIOCOUTQ, number)
    return number[0]


class Told(NamedTuple):
    """What came of the streams of a change: bytes, pieces with wrong words, packets that a dark
    port swallowed; of streams that were cut, the bytes that did not arrive by circuit."""

    num_streams: int
    sent_bytes: int
    received_bytes: int
    num_wrong: int
    num_lost_packets: int
    lost_bytes: dict[str, int]


class LinkStreams:
    """Streams on links of a fabric; none is open at first."""

    def __init__(self, fabric: EmulatedFabric) -> None:
        self.fabric, self.num_streams = fabric, 0
        self.running: dict[int, LinkWay] = {}
        self.were_cut: dict[int, str] = {}
        self.last: dict[int, tuple[dict[int, int], dict[int, int], int]] = {}
        self.before = fabric.counters()
        for pipe in fabric.living(fabric.hosts).values():
            pipe.send(("stream",))

    def open(self, ways: Iterable[LinkWay]) -> None:
        """Begin a stream on each of these links, whose light is there; a loop has none."""
        new = dict(enumerate((w for w in ways if w.tail != w.head), self.num_streams))
        if not new:
            return
        self.num_streams += len(new)
        self.fabric.route(list(new.values()))
        heads = _by_host(new, "head")
        self.fabric.asked("listen", lambda host: (heads.get(host, {}),))
        tails = _by_host(new, "tail")
        self.fabric.asked("connect", lambda host: (tails.get(host, {}),))
        self.fabric.asked("accept", lambda _: ())
        self.running.update(new)

    def drain(self, ids: Collection[str]) -> int:
        """End the streams on circuits of these, or on all; how many were ended."""
        ended = self._on(ids) if ids else [*self.running]
        self.last = self.fabric.asked("drain", lambda _: (set(ended),))
        for link in ended:
            del self.running[link]
        return len(ended)

    def cut(self, ids: Collection[str]) -> int:
        """Give up the streams on circuits of these, which are dark; how many were."""
        ended = self._on(ids)
        for what in ("cut", "give up"):
            self.fabric.asked(what, lambda _: (ended,))
        for link in ended:
            self.were_cut[link] = self.running.pop(link).name
        return len(ended)

    def _on(self, ids: Collection[str]) -> list[int]:
        return [link for link, way in self.running.items() if {*way.name.split()} & {*ids}]

    def close(self) -> Told:
        """End all streams; what came of them."""
        self.drain(())
        self.fabric.asked("stop", lambda _: ())
        after = self.fabric.counters()
        moved = {
            side: sum(
                after[host][name][side] - self.before[host][name][side]
                for host in after
                for name in after[host]
            )
            for side in (1, 3)
        }
        sent = {link: size for each, _, _ in self.last.values() for link, size in each.items()}
        got = {link: size for _, each, _ in self.last.values() for link, size in each.items()}
        lost = dict.fromkeys(self.were_cut.values(), 0)
        for link, name in self.were_cut.items():
            lost[name] += sent[link] - got[link]
        return Told(
            *(self.num_streams, sum(sent.values()), sum(got.values())),
            sum(wrong for *_, wrong in self.last.values()),
            moved[3] - moved[1],
            lost,
        )


def _by_host(ways: dict[int, LinkWay], end: str) -> dict[int, dict[int, str]]:
    """The addresses that links lead to, by the host at one end."""
    found: dict[int, dict[int, str]] = {}
    for link, way in ways.items():
        found.setdefault(getattr(way, end), {})[link] = way.address
    return found
