"""fabric.embed."""
