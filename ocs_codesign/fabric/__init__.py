"""Fabric: a design on real optical circuit switches, its ports, circuits, cables and changes."""
