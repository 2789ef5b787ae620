"""Rewiring: from the circuits that planes hold to those of another topology, in stages."""
