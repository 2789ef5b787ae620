"""Greedy synthesis: chunks matched to links as time goes on, for any links and any demand."""
