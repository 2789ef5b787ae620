"""circuits.demand."""
