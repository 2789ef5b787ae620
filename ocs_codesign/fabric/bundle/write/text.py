"""The text of a bundle's files: CSV and JSON, the same bytes for the same content."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from ocs_codesign.fabric.description import Fabric


def csv_bytes(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    r"""A table with a header, lines ended by LF.

    >>> csv_bytes(("a", "b"), [(1, "x,y")])
    b'a,b\n1,"x,y"\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode()


def json_bytes(value: Any) -> bytes:
    r"""JSON with sorted keys and an indent of 1.

    >>> json_bytes({"b": 1, "a": []})
    b'{\n "a": [],\n "b": 1\n}\n'
    """
    text = json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def decimal_text(value: Fraction, places: int = 6) -> str:
    """A number with at most so many decimal places and none that says nothing.

    >>> from fractions import Fraction
    >>> decimal_text(Fraction(5, 2)), decimal_text(Fraction(2, 3), 3), decimal_text(Fraction(10))
    ('2.5', '0.667', '10')
    """
    rounded = Decimal(round(value * 10**places)).scaleb(-places).normalize()
    return f"{rounded:f}"


# Names in a bundle: file names that are safe on every system.


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

    Also for names that some file systems take for one.
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
