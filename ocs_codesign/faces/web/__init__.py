"""faces.web."""
