"""Checking a bundle: the light is followed, nothing in it is trusted."""
