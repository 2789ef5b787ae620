"""search.pods."""
