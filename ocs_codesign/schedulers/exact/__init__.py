"""Exact schedules of small graphs: cuts, flows and mixed-integer programs."""
