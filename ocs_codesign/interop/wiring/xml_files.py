"""XML of strangers: elements of a text without entities, not too deep and not too many."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast
from xml.etree.ElementTree import ParseError, XMLPullParser

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MAX_DEPTH = 64
MAX_ELEMENTS = 2**20
_FORBIDDEN = re.compile(rb"<!ENTITY|<!DOCTYPE[^>\[]*\[")
_PIECE = 2**16


def root_of(data: bytes, name: str) -> Element:
    """The outermost element; ValueError for what is no XML, entities, and more than is read.

    A document type without definitions of its own is allowed, and never fetched.
    """
    if _FORBIDDEN.search(data):
        raise ValueError(f"{name}: entities and document types of its own are refused")
    parser: XMLPullParser[Any] = XMLPullParser(("start", "end"))
    root: Element | None = None
    depth = count = 0
    try:
        for at in range(0, len(data), _PIECE):
            parser.feed(data[at : at + _PIECE])
            for told in parser.read_events():
                event, element = cast("tuple[str, Element]", told)
                depth += 1 if event == "start" else -1
                count += event == "start"
                root = element if root is None else root
                if depth > MAX_DEPTH or count > MAX_ELEMENTS:
                    raise ValueError(
                        f"{name}: more than {MAX_DEPTH} levels or {MAX_ELEMENTS:,} elements"
                    )
        parser.close()
    except ParseError as error:
        raise ValueError(f"{name}: this is not XML ({error})") from None
    if root is None:
        raise ValueError(f"{name}: there is no element")
    return root
