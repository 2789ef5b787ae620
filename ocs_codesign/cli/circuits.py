"""What commands show of circuits that change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.answers.circuits import changes_sections
from ocs_codesign.cli.output import show_sections

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from ocs_codesign.circuits import Change


def show_changes(console: Console, changes: Sequence[Change]) -> None:
    """What comes up when, after the first configuration."""
    show_sections(console, changes_sections(changes))
