"""Embedding: a topology on the planes of a fabric, as cables, circuits and cross-connects."""
