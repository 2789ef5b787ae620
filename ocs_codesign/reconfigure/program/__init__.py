"""Schedules that change circuits, verified against the circuits up in each step."""
