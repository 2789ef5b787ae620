"""jobs.reconfigured."""
