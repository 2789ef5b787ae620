"""Workload files: the collectives of a step, from YAML or JSON."""
