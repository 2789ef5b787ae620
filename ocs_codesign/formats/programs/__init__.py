"""Programs of ranks on disk: the formats that runtimes and simulators read."""
