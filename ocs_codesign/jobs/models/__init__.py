"""jobs.models."""
