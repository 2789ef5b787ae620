"""fabric.bundle.write."""
