"""schedules.simulate."""
