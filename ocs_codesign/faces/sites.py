"""Builders of sites: machines whose numbers have sources, in so many servers."""

from __future__ import annotations

import re
from importlib.resources import files

MACHINES = ("dgx_a100", "dgx_h100", "dgx_b200", "gb200_nvl72", "mi300x")
"""Example files that describe one make of server."""

MAX_SERVERS = 2**17
_CALL = re.compile(r"\s*(\w+)\s*\(\s*([0-9]{1,9})?\s*\)\s*")
_NAME, _COUNT = re.compile(rb"^name: .*", re.MULTILINE), re.compile(rb"count: [0-9]+")


def is_builder(text: str) -> bool:
    """Whether a text is a builder of sites."""
    return text.partition("(")[0].strip() in MACHINES and text.rstrip().endswith(")")


def site_of_builder(text: str) -> bytes:
    """The description of so many servers of a make; ValueError for what is no builder.

    >>> site_of_builder("dgx_h100(8)").splitlines()[-3]
    b'servers: {count: 8, accelerators: 8, scale_up: 450GB/s, alpha: 2us}'
    >>> site_of_builder("a100(2)")
    Traceback (most recent call last):
    ValueError: a100(2) is no builder of rooms: those are dgx_a100, dgx_h100, dgx_b200, \
gb200_nvl72, mi300x, with a number of servers, as in dgx_h100(64)
    """
    told = _CALL.fullmatch(text)
    if told is None or told[1] not in MACHINES:
        raise ValueError(
            f"{text[:80]} is no builder of rooms: those are {', '.join(MACHINES)}, with a number "
            "of servers, as in dgx_h100(64)"
        )
    if told[2] is not None and not 1 <= int(told[2]) <= MAX_SERVERS:
        raise ValueError(f"{text}: from 1 to {MAX_SERVERS} servers")
    packaged = files("ocs_codesign.faces").joinpath("examples")
    content = packaged.joinpath(f"{told[1]}.yaml").read_bytes()
    if told[2] is None:
        return content
    named = _NAME.sub(b"name: " + text.strip().encode(), content, count=1)
    return _COUNT.sub(b"count: " + told[2].encode(), named, count=1)
