"""Demand matrices to configurations and durations of circuit switches."""
