"""Expansions: from small graphs and their schedules to larger graphs and theirs."""
