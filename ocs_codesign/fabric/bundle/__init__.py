"""fabric.bundle."""
