"""Formats: values read from and written to files of other tools, by name."""
