"""schedules.files."""
