"""Profiles of real switch technologies; every number with where it comes from.

"Class value" marks a number that is usual for the technology, where no figure of one product is
public; then it is from the pessimistic end of its range. "Product data" marks what a vendor states,
as the literature quotes it and not from a dated data sheet; ask the vendor before you buy. Prices
are estimates. Two numbers call for care: "N x N" counts the ports of a side, and dead times are
those of the light, without what control software adds.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign.fabric.description import PortModel, Source, SwitchProfile
from ocs_codesign.reconfigure.change import ReconfigurationCost

if TYPE_CHECKING:
    from collections.abc import Mapping


def _profile(name: str, technology: str, port_model: str, **sourced: Any) -> SwitchProfile:
    """``sourced`` are numbers, each with where it comes from."""
    value = {field: number for field, (number, _) in sourced.items()}
    return SwitchProfile(
        name,
        technology,
        PortModel(port_model),
        value["num_ports"],
        value["insertion_loss_db"],
        ReconfigurationCost(value.get("delta_s", 0), value.get("delta_per_circuit_s", 0)),
        value.get("price_usd_per_port"),
        value.get("power_w"),
        tuple(
            Source("change" if field.startswith("delta") else field, text)
            for field, (_, text) in sourced.items()
        ),
    )


PROFILES: Mapping[str, SwitchProfile] = {
    name: _profile(name, **fields)
    for name, fields in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
}
"""Every switch profile by its name, in the order of ``profiles.toml``."""


def profile_named(name: str) -> SwitchProfile:
    """The profile of that name; ValueError with the nearest names if there is none.

    >>> profile_named("polatis-384").num_ports
    384
    >>> profile_named("polatis")
    Traceback (most recent call last):
    ValueError: no switch profile is named 'polatis': did you mean polatis-384?
    """
    if name not in PROFILES:
        from difflib import get_close_matches

        near = get_close_matches(name[:80].lower(), PROFILES, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(PROFILES)}"
        shown = repr(name if len(name) <= 60 else name[:57] + "...")
        raise ValueError(f"no switch profile is named {shown}: {hint}")
    return PROFILES[name]
