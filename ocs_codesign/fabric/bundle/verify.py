"""The check of a bundle with a parser of recipes, in whose language bundles make their claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ocs_codesign.core.files.archives import as_directory
from ocs_codesign.fabric.bundle.check.bundle import BundleVerdict, check_directory
from ocs_codesign.graphs.text import parse

if TYPE_CHECKING:
    pass


LIMIT = 1000


def check_bundle(
    directory: str | Path, observed: str | Path | None = None, *, limit: int = LIMIT
) -> BundleVerdict:
    """Check a bundle, and observed neighbours if there are any, from cables and circuits up.

    The bundle is a directory, or a zip of one, unpacked for as long as it is checked. Observed
    neighbours have to be those of one of the configurations; else the differences from the nearest
    one are findings. Raises OSError if something cannot be read and ValueError if the directory has
    no manifest of a bundle, or the zip is broken.
    """
    neighbours = None if observed is None else Path(observed)
    with as_directory(Path(directory), "a bundle") as place:
        return check_directory(place, neighbours, parse, limit)
