"""schedules.classic."""
