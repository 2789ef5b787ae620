"""graphs.groups."""
