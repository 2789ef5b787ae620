"""schedules.compare."""
