"""jobs.files."""
