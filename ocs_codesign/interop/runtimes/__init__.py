"""Schedules in the runtimes of others: one engine, and its wires to PyTorch and JAX.

Read traffic, then moves, then one wire.
"""

from __future__ import annotations
