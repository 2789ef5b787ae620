"""A host of a rehearsal: a process in its own network namespace that sends what a schedule says."""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


_NEWNET, _ETHERTYPE, _ALL = 0x40000000, 0x88B5, 3
_FIRST_PORT, _PIECE = 20_000, 2**18
SYSCTLS = {
    "ipv6/conf/all/disable_ipv6": 1,
    "ipv6/conf/default/disable_ipv6": 1,
    "ipv4/conf/all/rp_filter": 0,
    "ipv4/conf/default/rp_filter": 0,
    "ipv4/ip_forward": 0,
    "ipv4/tcp_congestion_control": "reno",
    "ipv4/tcp_early_retrans": 0,
    "ipv4/tcp_no_metrics_save": 1,
    "ipv4/tcp_slow_start_after_idle": 0,
}
"""Late acknowledgements of a busy machine must not be taken for losses: counters are exact."""


class HostJob(NamedTuple):
    """What a host does of a schedule: ``start`` words a row, and rows to send and to receive.

    ``to`` and ``by`` are its links out, with the address they lead to, and in, with its own.
    ``sends[s]`` and ``gets[s]`` are rows of step s by link: first, number, whether they are added.
    """

    to: dict[int, str]
    by: dict[int, str]
    start: Any
    want: Any
    sends: list[dict[int, list[tuple[int, int, bool]]]]
    gets: list[dict[int, list[tuple[int, int, bool]]]]
    alpha_s: float


def enter(name: str) -> None:
    """Go into a network namespace; sockets stay in the one they were made in."""
    path = name if name.startswith("/") else f"/run/netns/{name}"
    with open(path, "rb") as there:
        if ctypes.CDLL(None, use_errno=True).setns(there.fileno(), _NEWNET):
            raise OSError(ctypes.get_errno(), f"namespace {name} cannot be entered")


def settle() -> None:
    """Write what the kernel is to do in this namespace, before it has links."""
    for name, value in SYSCTLS.items():
        path = f"/proc/sys/net/{name}"
        if os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                file.write(str(value))


def serve_host(name: str, pipe: Connection) -> None:
    """Do what is asked through a pipe, until it is closed."""
    enter(name)
    while True:
        try:
            what, *rest = pipe.recv()
        except EOFError:
            return
        if what == "count":
            pipe.send(_counters())
        elif what == "hear":
            pipe.send(_heard(*rest))
        elif what == "run":
            _Run(rest[0], pipe).run()


def _counters() -> dict[str, tuple[int, int, int, int]]:
    """Bytes and packets received, then sent, of every interface."""
    with open("/proc/thread-self/net/dev", encoding="ascii") as file:
        rows = [line.replace(":", " ").split() for line in file.readlines()[2:]]
    return {row[0]: (int(row[1]), int(row[2]), int(row[9]), int(row[10])) for row in rows}


def _heard(told: dict[str, str], until: float) -> list[tuple[str, str]]:
    """Say on every port whose it is, and hear on each what others say, until a time."""
    sockets = {name: socket.socket(socket.AF_PACKET, socket.SOCK_RAW) for name in told}
    for name, each in sockets.items():
        each.bind((name, _ETHERTYPE))
    heard, last = set(), 0.0
    while time.monotonic() < until:
        if time.monotonic() - last > 0.1:
            last = time.monotonic()
            for name, each in sockets.items():
                frame = b"\xff" * 6 + b"\x02" * 6 + struct.pack("!H", _ETHERTYPE)
                try:
                    each.send((frame + told[name].encode()).ljust(60, b" "))
                except OSError:
                    continue  # the link is down: nothing is said
        for each in select.select(list(sockets.values()), [], [], 0.05)[0]:
            data, (name, _, kind, *_) = each.recvfrom(2048)
            if kind != socket.PACKET_OUTGOING:
                heard.add((name, data[14:].decode().strip()))
    for each in sockets.values():
        each.close()
    return sorted(heard)


class _Run:
    """A collective, from connections that open to the last byte."""

    def __init__(self, job: HostJob, pipe: Connection) -> None:
        self.job, self.pipe = job, pipe
        self.out: dict[int, socket.socket] = {}
        self.into: dict[int, socket.socket] = {}
        self.queue: dict[int, deque[memoryview]] = {link: deque() for link in job.to}
        self.got = {link: bytearray() for link in job.by}

    def run(self) -> None:
        """Open, say which links did not, wait for the word, run, and say what came of it."""
        missing = self._open(time.monotonic() + 5.0)
        self.pipe.send(missing)
        told = self.pipe.recv()
        answer = ([], 0, 0.0) if told != "go" else self._traffic()
        self._close()
        self.pipe.send(answer)

    def _open(self, until: float) -> list[int]:
        servers = {}
        for link, address in self.job.by.items():
            server = servers[link] = socket.socket()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((address, _FIRST_PORT + link))
            server.listen(1)
            server.setblocking(False)
        self.pipe.send("listening")
        self.pipe.recv()
        for link, address in self.job.to.items():
            self.out[link] = client = socket.socket()
            client.setblocking(False)
            client.connect_ex((address, _FIRST_PORT + link))
        waiting, coming = set(self.out), set(servers)
        while (waiting or coming) and time.monotonic() < until:
            ends = [self.out[link] for link in waiting], [servers[link] for link in coming]
            ready = select.select(ends[1], ends[0], [], 0.1)
            for link in [link for link in coming if servers[link] in ready[0]]:
                self.into[link] = servers[link].accept()[0]
                self.into[link].setblocking(False)
                coming.discard(link)
            for link in [link for link in waiting if self.out[link] in ready[1]]:
                if not self.out[link].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    waiting.discard(link)
        for server in servers.values():
            server.close()
        return sorted(waiting | coming)

    def _traffic(self) -> tuple[list[int], int, float]:
        """Links of the earliest step that waits if it was stopped; wrong words; when it ended."""
        job, state = self.job, self.job.start
        for sends, gets in zip(job.sends, job.gets, strict=True):
            for link, rows in sends.items():
                parts = [state[first : first + count].copy() for first, count, _ in rows]
                self.queue[link].extend(memoryview(part.reshape(-1)).cast("B") for part in parts)
            width = state.shape[1] * 8
            need = {link: width * sum(row[1] for row in rows) for link, rows in gets.items()}
            while any(len(self.got[link]) < size for link, size in need.items()):
                if self._moved(0.5) and self.pipe.poll():
                    self.pipe.recv()
                    late = [link for link, size in need.items() if len(self.got[link]) < size]
                    return late, -1, 0.0
            for link, rows in gets.items():
                data = np.frombuffer(bytes(self.got[link][: need[link]]), dtype=np.uint64)
                del self.got[link][: need[link]]
                words = data.reshape(-1, state.shape[1])
                for first, count, is_added in rows:
                    part, words = words[:count], words[count:]
                    here = state[first : first + count]
                    np.add(here, part, out=here) if is_added else np.copyto(here, part)
            until = time.monotonic() + (job.alpha_s if gets else 0.0)
            while time.monotonic() < until:
                self._moved(max(0.0, until - time.monotonic()))
        while any(self.queue.values()):
            if self._moved(0.5) and self.pipe.poll():
                self.pipe.recv()
                return [], -1, 0.0
        rows, words = job.want
        return [], int(np.count_nonzero(state[rows] != words)), time.monotonic()

    def _moved(self, wait_s: float) -> bool:
        """Send and receive what is possible, or wait for the pipe."""
        writing = [self.out[link] for link, parts in self.queue.items() if parts]
        reading: list[Any] = [*self.into.values(), self.pipe]
        ready = select.select(reading, writing, [], wait_s)
        for link, each in self.into.items():
            if each in ready[0]:
                try:
                    data = each.recv(_PIECE)
                except OSError:
                    data = b""
                self.got[link] += data
                if not data:
                    time.sleep(0.01)
        for link, parts in self.queue.items():
            if parts and self.out[link] in ready[1]:
                try:
                    sent = self.out[link].send(parts[0][:_PIECE])
                except OSError:
                    continue
                parts[0] = parts[0][sent:]
                if not len(parts[0]):
                    parts.popleft()
        return self.pipe in ready[0]

    def _close(self) -> None:
        """End every stream, and wait until both ends have."""
        for each in self.out.values():
            try:
                each.shutdown(socket.SHUT_WR)
            except OSError:
                continue
        until = time.monotonic() + 2.0
        for each in [*self.into.values(), *self.out.values()]:
            each.settimeout(max(0.01, until - time.monotonic()))
            try:
                while each.recv(_PIECE):
                    pass
            except OSError:
                pass
            each.close()
