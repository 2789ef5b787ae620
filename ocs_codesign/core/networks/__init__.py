"""core.networks."""
