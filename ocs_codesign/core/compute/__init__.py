"""core.compute."""
