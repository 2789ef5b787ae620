"""Exhaustion: every topology of a small size, each once, and what none of them beats."""
