"""Schedulers compared on one clock: who is fastest on a network, by size of the message."""
