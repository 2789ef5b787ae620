"""Where a bundle is and how large, for whoever writes one."""

from __future__ import annotations

from typing import Any

from ocs_codesign.faces.answers.sections import Facts

SIZES: dict[str, Any] = {
    "num_files": lambda _, manifest: len(manifest["files"]) + 1,
    "num_bytes": lambda _, manifest: sum(file["bytes"] for file in manifest["files"].values()),
}
"""How large a bundle is."""


def bundle_facts(answer: dict[str, Any]) -> Facts:
    """Where a bundle is, and how large."""
    size = f"{answer['num_bytes'] / 1e6:.3g} MB in {answer['num_files']} files"
    bundle = size if answer["out"] is None else f"{answer['out']}, {size}"
    return Facts(
        ("fabric", answer["fabric"]), ("bundle", bundle), ("as one file", answer["archive"])
    )
