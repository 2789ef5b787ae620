"""schedules.stepped."""
