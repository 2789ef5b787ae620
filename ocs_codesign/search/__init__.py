"""Search: topologies of a size and degree, their frontiers, the catalogue of what is known."""
