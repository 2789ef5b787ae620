"""Known answers of classic algorithms, and options with which to try them on N ranks."""

from __future__ import annotations

import json

from folders import DATA

from ocs_codesign.schedules.classic.registry import CLASSIC

CASES = json.loads((DATA / "classic.json").read_text())["cases"]
SIZES = range(1, 34)


def options_of(case):
    """The options of a known case; a note is for who reads it."""
    return {name: value for name, value in case["params"].items() if name != "note"}


def messages_of(case):
    algorithm = CLASSIC[case["algorithm"]]
    return algorithm.messages(case["collective"], case["nodes"], **options_of(case))


def everything():
    """Every algorithm and collective by name, halves of an allreduce only where made for it."""
    return [
        (name, kind)
        for name, entry in CLASSIC.items()
        for kind in entry.collectives
        if kind in entry.makers or kind == "allreduce"
    ]
