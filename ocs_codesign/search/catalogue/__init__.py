"""search.catalogue."""
