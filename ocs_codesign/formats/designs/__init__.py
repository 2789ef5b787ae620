"""Designs on disk: a schedule and the record that explains it."""
