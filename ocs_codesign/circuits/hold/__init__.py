"""circuits.hold."""
