"""Planes that change circuits one by one while others send, and their timelines."""
