"""schedules.forest."""
