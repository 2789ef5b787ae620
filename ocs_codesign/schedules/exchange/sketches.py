"""Sketches: an ordered list of phases, each a set of links, that paths and trees keep to.

A file is YAML or JSON::

    phases: [inside, rail, [h0-s0, h1>s0]]
    relays: none
    parts: 4

A phase is ``inside`` (the first dimension of the network's builder), ``rail`` or ``outside`` (its
last), ``dim0``, ``dim1``, ... or ``all``, or a list of these, of nodes, and of links by their ends.
``relays`` (any, none, or hosts) and ``parts`` are as elsewhere, and may be left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.plain_text import checked_part, read_plain_text
from ocs_codesign.core.networks.builders import links_named, nodes_named
from ocs_codesign.core.quantities import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.network import Network


MAX_SKETCH_BYTES = 2**20
MAX_PHASES = 16
ANY, NONE = "any", "none"
"""Which hosts relay, beside names."""

_FIRST, _LAST, _ALL = ("inside",), ("rail", "outside"), "all"


class Sketch(NamedTuple):
    """Phases by ``names`` and as ids of links (int64), in order; relays and parts, None for any."""

    names: tuple[str, ...]
    phases: tuple[NDArray[np.int64], ...]
    relays: tuple[int, ...] | None = None
    parts: int | None = None


class _SketchPart(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    phases: list[str | list[str]] = Field(min_length=1, max_length=MAX_PHASES)
    relays: str | list[str] = ANY
    parts: int | None = Field(default=None, ge=1, le=4096)


def sketch_on(network: Network, phases: Sequence[str | Sequence[str]]) -> Sketch:
    """The sketch of these phases on a network; ValueError for what is none of its links.

    >>> from ocs_codesign.core.networks.products import h100_rail
    >>> [len(one) for one in sketch_on(h100_rail(2), ["inside", "rail", ["h0-s0"]]).phases]
    [32, 32, 2]
    """
    names = [phase if isinstance(phase, str) else "+".join(phase) for phase in phases]
    listed = [[phase] if isinstance(phase, str) else phase for phase in phases]
    links = (np.concatenate([_links(network, text) for text in each]) for each in listed)
    return Sketch(tuple(names), tuple(np.unique(each) for each in links))


def load_sketch(given: str, network: Network) -> Sketch:
    """The sketch in a file, or of phases named with commas between them.

    Raises OSError if the file cannot be read, ValueError with the place and the rule else.
    """
    path = Path(given)
    if not path.suffix and not path.exists():
        return sketch_on(network, [name.strip() for name in given.split(",")])
    data = read_limited(path, MAX_SKETCH_BYTES)
    plain = read_plain_text(data, given, is_json=path.suffix.lower() == ".json")
    keys = list(_SketchPart.model_fields)
    part = checked_part(plain, given, _SketchPart, lambda _: keys, "sketch", keys="phases")
    try:
        found = sketch_on(network, part.phases)
        relays = part.relays if isinstance(part.relays, str) else ",".join(part.relays)
        return found._replace(relays=relays_of(relays, network), parts=part.parts)
    except ValueError as error:
        raise ValueError(f"{given}: {error}") from None


def relays_of(text: str, network: Network) -> tuple[int, ...] | None:
    """Hosts by their names with commas between them; all of them are None."""
    if text in (ANY, NONE):
        return None if text == ANY else ()
    found: list[int] = []
    for name in text.split(","):
        hosts = [node for node in nodes_named(network, name) if not network.is_switch(node)]
        if not hosts:
            raise ValueError(f"relays name {name!r}: they are any, none or names of hosts")
        found += hosts
    return tuple(found)


def _links(network: Network, text: str) -> NDArray[np.int64]:
    """Links of a dimension, at a node or between two ends."""
    level = network.dimension
    if text == _ALL:
        return np.arange(network.num_links)
    is_level = text in (*_FIRST, *_LAST) or (text[:3] == "dim" and whole(text[3:]) is not None)
    if not is_level or nodes_named(network, text):
        return links_named(network, text)
    if level is None or not network.num_links:
        raise ValueError(f"the phase {text!r}: this network has no dimensions, name its links")
    named = {**dict.fromkeys(_FIRST, int(level.min())), **dict.fromkeys(_LAST, int(level.max()))}
    found = np.flatnonzero(level == named.get(text, int(text[3:] if text[:3] == "dim" else 0)))
    if not len(found):
        last = int(level.max())
        raise ValueError(f"the phase {text!r} has no links: dimensions are dim0 to dim{last}")
    return found
