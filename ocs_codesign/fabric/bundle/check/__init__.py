"""fabric.bundle.check."""
