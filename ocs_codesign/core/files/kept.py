"""Where what later commands may use again is kept: a directory of the user, perhaps none."""

from __future__ import annotations

import os
from pathlib import Path

CACHE = "OCS_CODESIGN_CACHE"
"""The environment variable that names the directory; if it is empty, nothing is kept."""


def kept_path(name: str) -> Path | None:
    """A file that is kept for later commands, there or not; None if none is kept."""
    told = os.environ.get(CACHE)
    if told is not None:
        return Path(told) / name if told else None
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # no home
        return None
    return Path(base) / "ocs-codesign" / name
