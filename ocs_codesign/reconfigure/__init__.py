"""Reconfiguration: schedules that change circuits, what the change costs and when it pays."""
