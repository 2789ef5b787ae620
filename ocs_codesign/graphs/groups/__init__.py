"""Finite groups for Cayley graphs: small frozen values that multiply whole index arrays."""
