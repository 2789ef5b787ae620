"""The text of a bundle's files: CSV and JSON, the same bytes for the same content."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction


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
