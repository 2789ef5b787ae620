"""Bundles: the directory that an engineer deploys, and its check."""
