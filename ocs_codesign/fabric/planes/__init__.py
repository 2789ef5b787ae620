"""fabric.planes."""
