"""fabric.repairs."""
