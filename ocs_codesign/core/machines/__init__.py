"""Machines as data, and the models of what libraries take on them."""
