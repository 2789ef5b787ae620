"""fabric.rewiring."""
