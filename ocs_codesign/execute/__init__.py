"""Running a program of ranks on real processes."""
