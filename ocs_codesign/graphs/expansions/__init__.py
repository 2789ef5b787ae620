"""graphs.expansions."""
