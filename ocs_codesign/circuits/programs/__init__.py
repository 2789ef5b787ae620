"""circuits.programs."""
