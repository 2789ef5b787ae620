"""circuits.planes."""
