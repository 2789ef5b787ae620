"""jobs.codesign."""
