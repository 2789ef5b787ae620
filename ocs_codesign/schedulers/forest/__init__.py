"""Forests: collectives along spanning trees in many pieces, as fast as the network allows."""
