"""fabric.files."""
