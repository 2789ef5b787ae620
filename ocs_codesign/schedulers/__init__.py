"""Schedulers: (topology, collective) in, Schedule out."""
