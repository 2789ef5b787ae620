"""All-to-all, even or not, on any network: its least time, its proof, and schedules near it."""
