"""circuits.legs."""
