"""fabric.pods."""
