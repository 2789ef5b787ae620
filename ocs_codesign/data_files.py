"""Where the data that comes with the package lies."""

from __future__ import annotations

from pathlib import Path


def base_topologies_path() -> Path:
    """The folder of the data files: inside an installed package, beside it in a checkout."""
    package = Path(__file__).resolve().parent
    for folder in (package / "base_topologies", package.parent / "base_topologies"):
        if (folder / "index.json").is_file():
            return folder
    raise FileNotFoundError(f"base_topologies/index.json is missing beside {package}")
