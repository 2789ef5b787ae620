"""Sequences of Cayley digraphs for all-to-all, searched and solved."""
