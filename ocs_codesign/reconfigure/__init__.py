"""Reconfiguration: schedules that change circuits, what the change costs and when it pays."""

from __future__ import annotations

from ocs_codesign.reconfigure.change import ReconfigurationCost

__all__ = ["ReconfigurationCost"]
