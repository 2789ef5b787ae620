"""Writers that are stopped before each change that they make, and then killed or let go on.

Run as a program in an empty directory, for it forks; it prints what was wrong.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from fractions import Fraction
from itertools import count, product
from pathlib import Path

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.files import atomic
from ocs_codesign.core.files.kept import CACHE
from ocs_codesign.core.networks.builders import star
from ocs_codesign.faces.cli import handles
from ocs_codesign.faces.cli.workers import Here
from ocs_codesign.schedules.compare import comparison
from ocs_codesign.schedules.compare.contest import Contest
from ocs_codesign.schedules.compare.play import Entrant
from ocs_codesign.schedules.design import Question
from ocs_codesign.search.catalogue import own
from ocs_codesign.search.catalogue.entry import Provenance
from ocs_codesign.search.catalogue.store import Catalogue

CHANGES = {"open", "shutil.rmtree"} | {
    f"os.{name}" for name in ("chmod", "link", "mkdir", "remove", "rename", "rmdir")
}


def files(path, value):
    atomic.write_files({path: b"%d" % value})


def filled(path, value):
    with atomic.whole_directory(path, swapped=False) as part:
        (part / "a").write_bytes(b"%d" % value)


def swapped(path, value):
    with atomic.whole_directory(path, swapped=True) as part:
        (part / "a").write_bytes(b"%d" % value)
        (part / "b").write_bytes(b"%d" % value)


def moved(path, value):
    """Where directories cannot be exchanged."""
    exchanged, atomic._exchanged = atomic._exchanged, lambda *_: False
    swapped(path, value)
    atomic._exchanged = exchanged


def outcomes(path, _):
    """Those of every question beside each other, under names of their own."""
    comparison.entrants = lambda _: [Entrant("ring")]
    asked = Collective("allgather"), (len(path.name),), Fraction(1), None
    comparison.compare([Contest("n", star(3, 1), *asked)], Here(), 1, path.parent)


def catalogue(path, value):
    with Catalogue(path, writable=True) as store:
        store.record(Question(3, 1), [], Provenance("test", "0", 1, 0.0, value))


def kept(path, value):
    """In the directory of the user: recipes that were printed, and a catalogue."""
    os.environ[CACHE] = str(path.parent)
    handles.keep([f"{path.name} {value}"])
    own.keep(Question(3, 1), (), Provenance(path.name, "0", 1, 0.0, value))


GROW = (catalogue, kept)
"""Stores to which is added: only that their files are there is compared."""


def files_in(write, room, begin=""):
    found = {str(one.relative_to(room)): one for one in sorted(room.rglob("*")) if one.is_file()}
    return {
        name: write in GROW or one.read_bytes()
        for name, one in found.items()
        if name.startswith(begin)
    }


def stop(write, room, number, says, hears):
    """From here on this process stops before its so many-th change in a room, and says so.

    Changes inside what is hidden do not count.
    """
    done = count(1)

    def change():
        if next(done) == number:
            os.write(says, b"!")
            os.read(hears, 1)

    def hear(event, words):
        if event in CHANGES and isinstance(words[0], str | bytes | Path):
            path = os.fsdecode(words[0])
            is_read = event == "open" and words[2] & os.O_ACCMODE == os.O_RDONLY
            if path.startswith(f"{room}/") and "/." not in os.path.dirname(path) and not is_read:
                change()

    def connected(*words, **options):
        connection = connect(*words, **options)
        connection.set_progress_handler(change, 25)  # so many of SQLite's own steps
        return connection

    sys.addaudithook(hear)
    connect = sqlite3.connect
    if write is catalogue:  # elsewhere others would wait for one that stops in a transaction
        sqlite3.connect = connected


def wrong(write, room, clean, is_there, number, way):
    """What is wrong if one stops at a change while others write; None if it has ended before."""
    path, other = room / "name", room / "other"
    room.mkdir()
    if is_there:
        write(path, 0)
    states = [files_in(write, one, "name") for one in (room, clean)]
    (listens, says), (hears, tells) = os.pipe(), os.pipe()
    if (process := os.fork()) == 0:
        stop(write, room, number, says, hears)
        write(path, 1)
        os._exit(0)
    os.close(says)
    is_stopped, is_killed = os.read(listens, 1) == b"!", way != "goes on"
    if is_stopped:
        write(other, 0)
        os.kill(process, signal.SIGKILL) if is_killed else os.write(tells, b"!")
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    for end in (listens, hears, tells):
        os.close(end)
    if code != (-signal.SIGKILL if is_stopped and is_killed else 0):
        return f"it ended with {code}"
    if not is_stopped:
        return None
    if is_killed:
        write(path if way == "the same" else other, 1)
    there = files_in(write, room, "name")
    if write not in GROW and there not in (states if way == "another" else states[1:]):
        return f"there is {there}"
    if left := sorted(one.name for one in room.rglob(".*")):
        return f"{left} was left"
    write(path, 1)
    write(other, 1)
    return "" if files_in(write, room) == files_in(write, clean) else f"{files_in(write, room)}"


def main():
    for write in (files, filled, swapped, moved, outcomes, catalogue, kept):
        place = Path.cwd() / write.__name__
        clean = place / "clean"
        clean.mkdir(parents=True)
        write(clean / "name", 1)
        write(clean / "other", 1)
        for is_there, way in product((False, True), ("goes on", "the same", "another")):
            for number in count(1):
                room = place / f"{is_there} {number} {way}"
                told = wrong(write, room, clean, is_there, number, way)
                if told is None:
                    break
                if told:
                    sys.stdout.write(f"{write.__name__} {room.name}: {told}\n")


if __name__ == "__main__":
    main()
