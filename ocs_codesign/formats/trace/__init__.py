"""Traces: collectives with the computation between them, from CSV or JSON."""
