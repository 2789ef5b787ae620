"""search.alltoall."""
