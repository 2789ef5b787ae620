"""Deployments: configurations on laid cables, and what is done to them from day two on."""
