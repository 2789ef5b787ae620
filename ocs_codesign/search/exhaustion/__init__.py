"""search.exhaustion."""
