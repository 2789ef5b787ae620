"""SCHEDULERS: every maker of schedules by name, for the command line, designs and the contracts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.schedulers.bfb.assembly import bfb

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.collective import Collective
    from ocs_codesign.schedule import Schedule
    from ocs_codesign.topology import Topology

SCHEDULERS: dict[str, Callable[[Topology, Collective], Schedule]] = {"bfb": bfb}
"""Every maker of schedules for a topology and a collective."""
