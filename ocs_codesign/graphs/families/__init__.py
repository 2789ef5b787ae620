"""graphs.families."""
