"""The finder's own search for all-to-all."""
