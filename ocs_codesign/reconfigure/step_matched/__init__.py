"""Collectives whose every step wants circuits of its own."""
