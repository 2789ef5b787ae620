"""Networks in other people's files: wires of clusters and servers, made a Network in one way.

Reading order: wires.py (what a file is read into, and how that becomes a network), registry.py (the
formats, told by content), then a module a family of formats.
"""
