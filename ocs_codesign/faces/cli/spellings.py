"""Earlier spellings of options, still understood but no longer shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


RENAMED: dict[str, dict[str, tuple[str, ...]]] = {
    "build": {"--schedule": ("--scheduler",)},
    "frontier": {"--reconfiguration": ("--delta",)},
    "planes": {
        "--cold": ("--start", "cold"),
        "--held": ("--start",),
        "--latency": ("--alpha",),
        "--warm": ("--start", "warm"),
    },
    "sequence": {"--stop-all": ("--serial",), "--warm": ("--start", "warm")},
    "sweep": {"--scheduler": ("--dask",)},
}
"""What an option of a command is called now, with its value where it had none."""


def as_spelled_now(command: str, arguments: Iterable[str]) -> list[str]:
    """The arguments of a command in today's spelling.

    >>> as_spelled_now("planes", ["steps.csv", "--latency=1us", "--warm"])
    ['steps.csv', '--alpha=1us', '--start', 'warm']
    >>> as_spelled_now("select", ["fabric.yaml", "--top", "3"])
    ['--fabric', 'fabric.yaml', '--top', '3']
    """
    words = list(arguments)
    if command == "select" and words and not words[0].startswith("-"):
        words.insert(0, "--fabric")
    renamed = RENAMED.get(command, {})
    spelled = []
    for word in words:
        option, equals, value = word.partition("=")
        first, *rest = renamed.get(option, (option,))
        spelled += [first + equals + value, *rest]
    return spelled
