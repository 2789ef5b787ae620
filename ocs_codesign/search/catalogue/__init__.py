"""The catalogue: designs found by sweeps, stored with provenance, looked up in milliseconds."""
