"""schedules.greedy."""
