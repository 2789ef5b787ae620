"""interop.run."""
