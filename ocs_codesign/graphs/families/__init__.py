"""Families of base graphs: sizes in, Topology out, with what theory says of their loads."""
