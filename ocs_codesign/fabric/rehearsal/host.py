"""A host of a rehearsal: a process in its own network namespace that sends what a schedule says."""

from __future__ import annotations

import ctypes
import os
import select
import socket
import struct
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocs_codesign.fabric.rehearsal.kernel import BURST_BYTES, FIRST_PORT, PIECE
from ocs_codesign.fabric.rehearsal.streams import Streams, leave_nothing

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


_NEWNET, _ETHERTYPE, _QUIET = 0x40000000, 0x88B5, 30
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
    A step lasts ``alpha_s`` more than its bytes at ``rate_Bps``.
    ``sends[s]`` and ``gets[s]`` are rows of step s by link: first, number, whether they are added.
    """

    to: dict[int, str]
    by: dict[int, str]
    start: Any
    want: Any
    sends: list[dict[int, list[tuple[int, int, bool]]]]
    gets: list[dict[int, list[tuple[int, int, bool]]]]
    alpha_s: float
    rate_Bps: float  # noqa: N815


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
    ears: dict[str, socket.socket] = {}
    while True:
        try:
            what, *rest = pipe.recv()
            if what == "count":
                pipe.send(_counters())
            elif what == "listen":
                for each in ears.values():
                    each.close()
                ears = _ears(*rest)
                pipe.send(None)
            elif what == "say":
                _say(ears, *rest)
                pipe.send(None)
            elif what == "hear":
                pipe.send(_heard(ears))
            elif what == "run":
                _Run(rest[0], pipe).run()
            elif what == "stream":
                Streams(pipe).run()
        except (EOFError, OSError):
            return  # who asks has gone


def _counters() -> dict[str, tuple[int, int, int, int]]:
    """Bytes and packets received, then sent, of every interface of a cable."""
    with open("/proc/thread-self/net/dev", encoding="ascii") as file:
        rows = [line.replace(":", " ").split() for line in file.readlines()[2:]]
    data = [row for row in rows if row[0].startswith("p")]
    return {row[0]: (int(row[1]), int(row[2]), int(row[9]), int(row[10])) for row in data}


def _delay_s() -> float:
    """How long this process was ready and had no core to run on, since it began."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _ears(names: list[str]) -> dict[str, socket.socket]:
    """What hears every frame of neighbours on these interfaces."""
    ears = {}
    for name in names:
        ears[name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        ears[name].setblocking(False)
        ears[name].bind((name, _ETHERTYPE))
    return ears


def _say(ears: dict[str, socket.socket], told: dict[str, str]) -> None:
    """Say on every port whose it is."""
    frame = b"\xff" * 6 + b"\x02" * 6 + struct.pack("!H", _ETHERTYPE)
    for name, each in ears.items():
        with suppress(OSError):  # of a link that is down: nothing is said
            each.send((frame + told[name].encode()).ljust(60, b" "))


def _heard(ears: dict[str, socket.socket]) -> list[tuple[str, str]]:
    """What others said on every port since it was asked last."""
    heard = set()
    for name, each in ears.items():
        while True:
            try:
                data, (_, _, kind, *_) = each.recvfrom(2048)
            except BlockingIOError:
                break
            except OSError:
                continue  # it says once that the link went down
            if kind != socket.PACKET_OUTGOING:
                heard.add((name, data[14:].decode().strip()))
    return sorted(heard)


class _Run:
    """A collective, from connections that open to the last byte.

    What is asked meanwhile: ``moved?``, answered by the bytes so far, and ``stop``. No step depends
    on a clock, as processes of a busy machine wait for a core.
    """

    def __init__(self, job: HostJob, pipe: Connection) -> None:
        self.job, self.pipe = job, pipe
        self.out: dict[int, socket.socket] = {}
        self.into: dict[int, socket.socket] = {}
        self.queue: dict[int, deque[memoryview]] = {link: deque() for link in job.to}
        self.got = {link: bytearray() for link in job.by}
        self.ended: set[int] = set()
        self.num_moved, self.is_stopped = 0, False

    def run(self) -> None:
        """Open, say which links did not, wait for the word, run, and say what came of it."""
        self.pipe.send(self._open())
        answer: tuple[list[int], int, float] = [], -1, 0.0
        delay_s = _delay_s()
        if self.pipe.recv() == "go":
            answer = self._traffic()
        self.pipe.send(("ended", (*answer, _delay_s() - delay_s)))
        while (told := self.pipe.recv()) not in ("close", "abort"):
            pass
        self._close(is_whole=told == "close")
        self.pipe.send("closed")

    def _agreed(self, word: str) -> None:
        """Wait until all have come so far."""
        self.pipe.send(word)
        self.pipe.recv()

    def _open(self) -> list[int]:
        servers = {}
        for link, address in self.job.by.items():
            server = servers[link] = socket.socket()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((address, FIRST_PORT + link))
            server.listen(1)
            server.setblocking(False)
        self._agreed("listening")
        failed = set()
        for link, address in self.job.to.items():
            self.out[link] = client = socket.socket()
            client.setblocking(False)
            client.connect_ex((address, FIRST_PORT + link))
        self._agreed("connecting")
        waiting, coming, num_quiet = set(self.out), set(servers), 0
        while (waiting or coming) and num_quiet < _QUIET:
            ends = [self.out[link] for link in waiting], [servers[link] for link in coming]
            ready = select.select(ends[1], ends[0], [], 0.1)
            num_quiet = 0 if ready[0] or ready[1] else num_quiet + 1
            for link in [link for link in coming if servers[link] in ready[0]]:
                self.into[link] = servers[link].accept()[0]
                self.into[link].setblocking(False)
                coming.discard(link)
            for link in [link for link in waiting if self.out[link] in ready[1]]:
                waiting.discard(link)
                if self.out[link].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    failed.add(link)
        for server in servers.values():
            server.close()
        return sorted(waiting | coming | failed)

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
                self._move(0.5)
                if self.is_stopped:
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
            # Links pass a burst at once after a pause: what that saved is waited for as well.
            burst_s = min(max(need.values(), default=0), BURST_BYTES) / job.rate_Bps
            until = time.monotonic() + (job.alpha_s + burst_s if gets else 0.0)
            while time.monotonic() < until:
                self._move(max(0.0, until - time.monotonic()))
        while any(self.queue.values()):
            self._move(0.5)
            if self.is_stopped:
                return [], -1, 0.0
        rows, words = job.want
        return [], int(np.count_nonzero(state[rows] != words)), time.monotonic()

    def _move(self, wait_s: float) -> None:
        """Send and receive what is possible, and answer at the pipe."""
        writing = {
            link: parts for link, parts in self.queue.items() if parts and link not in self.ended
        }
        reading = {link: each for link, each in self.into.items() if link not in self.ended}
        hearing: list[Any] = [*reading.values(), self.pipe]
        ready = select.select(hearing, [self.out[link] for link in writing], [], wait_s)
        for link in [link for link, each in reading.items() if each in ready[0]]:
            try:
                data = self.into[link].recv(PIECE)
            except OSError:
                data = b""
            self.got[link] += data
            self.num_moved += len(data)
            if not data:
                self.ended.add(link)
        for link in [link for link in writing if self.out[link] in ready[1]]:
            parts = self.queue[link]
            try:
                sent = self.out[link].send(parts[0][:PIECE])
            except OSError:
                self.ended.add(link)
                continue
            self.num_moved += sent
            parts[0] = parts[0][sent:]
            if not len(parts[0]):
                parts.popleft()
        if self.pipe in ready[0]:
            if self.pipe.recv() == "stop":
                self.is_stopped = True
            else:
                self.pipe.send(("moved", self.num_moved))

    def _close(self, *, is_whole: bool) -> None:
        """End every stream and wait until its other end has, or leave nothing of it on its way."""
        every = [*self.into.values(), *self.out.values()]
        if not is_whole:  # an end that waits for another would be answered on repaired light
            for each in every:
                leave_nothing(each)
            return
        for each in self.out.values():
            each.shutdown(socket.SHUT_WR)
        for each in every:
            each.settimeout(_QUIET)
            with suppress(OSError):
                while each.recv(PIECE):
                    pass
            each.close()
