"""Writing a bundle: tables, cross-connects, plans, schedules and the report."""
