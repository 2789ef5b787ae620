"""schedules.bfb."""
