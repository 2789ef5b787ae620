"""Planes: which circuits carry a topology's links, in how many planes, by port model."""
