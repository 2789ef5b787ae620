"""Graphs as values: families, groups and expansions, a class each; recipes parse to them."""
