"""schedules.paths."""
