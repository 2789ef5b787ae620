"""core.files."""
