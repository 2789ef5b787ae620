"""graphs.formats."""
