"""faces.answers."""
