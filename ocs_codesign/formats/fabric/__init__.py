"""Fabric files: switches, planes and hosts, from YAML or JSON."""
