"""Names in a bundle: file names that are safe on every system."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from ocs_codesign.files.naming import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ocs_codesign.fabric.description import Fabric

MAX_NAME_BYTES = 120
BETWEEN = "-to-"

_FORBIDDEN = set('/\\:;*?"<>|')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)


def check_file_name(what: str, name: str) -> None:
    """ValueError unless a name can be that of a file or directory, anywhere and by itself.

    >>> check_file_name("switch", "../core")
    Traceback (most recent call last):
    ValueError: switch '../core' cannot be a file name: it begins with '.'
    """
    wrong = sorted(_FORBIDDEN & set(name))
    rule = None
    if not name or not name.isprintable():
        rule = "it must be one line of printable text"
    elif name[0] in ".-" or name[0].isspace():
        rule = f"it begins with {name[0]!r}"
    elif wrong:
        rule = f"it has {wrong[0]!r}"
    elif name[-1] == "." or name[-1].isspace():
        rule = f"it ends with {name[-1]!r}"
    elif _RESERVED.fullmatch(name):
        rule = "some systems reserve it for a device"
    elif len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        rule = f"it is longer than {MAX_NAME_BYTES} bytes"
    if rule is not None:
        raise ValueError(f"{what} {shown(name)} cannot be a file name: {rule}")


def check_names(fabric: Fabric, configurations: Iterable[str]) -> None:
    """ValueError for names of switches and configurations that cannot be those of files.

    Also for names that some file systems take for one, and for a host named as a switch: devices
    are told apart by name.
    """
    configurations = list(configurations)
    switches = [switch.name for switch in fabric.switches]
    for what, names in (("switch", switches), ("configuration", configurations)):
        seen: dict[str, str] = {}
        for name in names:
            check_file_name(what, name)
            folded = unicodedata.normalize("NFKC", name).casefold()
            if folded in seen:
                raise ValueError(
                    f"{what} {shown(name)} and {shown(seen[folded])} are one file name on some "
                    "systems: names must differ in more than capitals"
                )
            seen[folded] = name
    for name in configurations:
        if BETWEEN in name:
            raise ValueError(
                f"configuration {shown(name)} has {BETWEEN!r}, which is between the names of two"
            )
    both = sorted(set(switches) & set(fabric.hosts))
    if both:
        raise ValueError(f"{shown(both[0])} is a host and a switch: devices have different names")
