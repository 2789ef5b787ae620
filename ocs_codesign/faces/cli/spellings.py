"""Earlier spellings of options, still understood but no longer shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


ANY = "{}"
"""Where the value of the earlier option goes."""

EVERYWHERE = {
    "--barriers": ("--barrier",),
    "--degrees": ("--degree",),
    "--scheduler-address": ("--dask",),
}
_FORMATS: dict[str, tuple[str, ...]] = {"--from": ("--format",), "--to": ("--format",)}
_RULES = ("--rules",)
RENAMED: dict[str, dict[str, tuple[str, ...]]] = {
    "build": {
        "--schedule": ("--scheduler",),
        "--height": ("--max-hops",),
        "--steps": ("--max-steps",),
    },
    "catalogue": {"--worst": ("--top",), "--seconds": ("--time-limit", ANY + "s")},
    "cluster": {
        "--each-rail": ("--wiring", "each-rail"),
        "--mesh": ("--inner", "mesh=" + ANY),
        "--recipe": ("--designs",),
        "--switch": ("--inner", "switch=" + ANY),
    },
    "codesign": {"--deploy": ("--bundle",)},
    "compare": {"--alpha": ("--latency",)},
    "exhaust": {"--alltoall": ("--collective", "alltoall")},
    "export": _FORMATS,
    "fabric": {"--cluster": ("cluster",), "--hosts": ("--nodes",), "--workload": ("workload",)},
    "frontier": {
        "--forests": ("--criteria", "forests"),
        "--joint": ("--criteria", "joint"),
        "--reconfiguration": ("--delta",),
    },
    "fuse": {
        f"--{name}": (*_RULES, f"{name}={ANY}")
        for name in ("peak", "memory", "at-a-time", "slowdown", "overhead")
    },
    "import": {**_FORMATS, "--undirected": ("--bidirectional",)},
    "iterate": {"--configuration": ("--designs",), "--reconfiguration-delay": ("--delta",)},
    "paths": {
        "--deadlock-free": ("--routing", "deadlock-free"),
        "--disjoint": ("--routing", "disjoint"),
        "--max-parts": ("--parts",),
    },
    "planes": {
        "--cold": ("--start", "cold"),
        "--held": ("--start",),
        "--latency": ("--alpha",),
        "--warm": ("--start", "warm"),
    },
    "rewire": {"--held": ("--start",)},
    "run": _FORMATS,
    "sequence": {"--stop-all": ("--serial",), "--warm": ("--start", "warm")},
    "simulate": {
        "--blocking": (*_RULES, "blocking"),
        "--stops": ("--serial",),
        **{
            f"--{name}": (*_RULES, f"{name}={ANY}")
            for name in ("overhead", "injection", "memory", "next-on-pair")
        },
    },
    "survive": {"--kinds": ("--lost",)},
    "sweep": {"--scheduler": ("--dask",)},
    "verify": _FORMATS,
    "verify-bundle": {"--limit": ("--top",)},
}
"""What an option of a command is called now, with its value where it had none or another."""


def as_spelled_now(command: str, arguments: Iterable[str]) -> list[str]:
    """The arguments of a command in today's spelling.

    >>> as_spelled_now("planes", ["steps.csv", "--latency=1us", "--warm"])
    ['steps.csv', '--alpha=1us', '--start', 'warm']
    >>> as_spelled_now("simulate", ["ring", "--overhead", "1us", "--rules", "exact"])
    ['ring', '--rules', 'overhead=1us']
    """
    words = list(arguments)
    if command == "select" and words and not words[0].startswith("-"):
        words.insert(0, "--fabric")
    renamed = {**EVERYWHERE, **RENAMED.get(command, {})}
    spelled: list[str] = []
    while words:
        option, equals, value = words.pop(0).partition("=")
        if (
            command == "simulate"
            and option == "--rules"
            and (value or words[:1]) in ("exact", ["exact"])
        ):
            words = words if equals else words[1:]
            continue
        first, *rest = renamed.get(option, (option,))
        if any(ANY in part for part in rest):
            value = value if equals else (words.pop(0) if words else "")
            spelled += [first, *(part.replace(ANY, value) for part in rest)]
        else:
            spelled += [first + equals + value, *rest]
    return spelled
