"""fabric.selection."""
