"""Symmetry: automorphisms and the quotients that they save work with."""
