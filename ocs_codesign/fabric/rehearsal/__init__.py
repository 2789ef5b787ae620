"""fabric.rehearsal."""
