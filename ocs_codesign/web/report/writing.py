"""Bundles with their report: what ``deploy`` and all that changes a deployment writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ocs_codesign.bundle.write.bundle import write_with_report
from ocs_codesign.web.report.report import report_page

if TYPE_CHECKING:
    from pathlib import Path

    from ocs_codesign.fabric.deployments.deployment import Deployment


def write_bundle(deployment: Deployment, directory: str | Path) -> dict[str, Any]:
    """Write the bundle of a deployment, whole or not at all; the manifest that was written.

    The directory appears complete, in one move, or takes the place of an earlier bundle. Raises
    ValueError for names that cannot be those of files and a directory that holds anything else,
    OSError if it cannot be written.
    """
    return write_with_report(deployment, directory, report_page)
