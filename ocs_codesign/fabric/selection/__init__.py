"""Selection: which designs, or plans that change between them, serve a workload fastest."""
