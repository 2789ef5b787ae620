"""Survival: what is left of a topology after a loss, and what collectives cost on it."""
