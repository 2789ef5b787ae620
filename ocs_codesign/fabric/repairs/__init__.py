"""Repairs: a topology made again on what is left of a fabric and on its spares."""
