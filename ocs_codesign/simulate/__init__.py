"""Discrete events in whole ticks: when every transfer of a collective runs on a network."""
