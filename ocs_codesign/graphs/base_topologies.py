"""The data in base_topologies/: indexes with declared facts, and the files that they vouch for.

A file that does not match its checksum is refused, never used.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any


def base_topologies_path() -> Path:
    """The folder of the data files: inside an installed package, beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "base_topologies", package.parent / "base_topologies"):
        if (folder / "index.json").is_file():
            return folder
    raise FileNotFoundError(f"base_topologies/index.json is missing beside {package}")


def read_index(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The entries of this kind in a folder's index; ValueError if its version is unknown."""
    content: dict[str, Any] = json.loads((folder / "index.json").read_bytes())
    if content["version"] != 1:
        raise ValueError(f"{folder.name}/index.json has version {content['version']}, not 1")
    return [{**entry, "t_b": Fraction(entry["t_b"])} for entry in content[kind]]


def read_checked(path: Path, sha256: str) -> dict[str, Any]:
    """The JSON in a file; ValueError if it does not have this checksum."""
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError(f"{path} does not match its checksum in index.json: the file is damaged")
    content: dict[str, Any] = json.loads(data)
    return content
