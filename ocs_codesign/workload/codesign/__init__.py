"""Which division of a model, mapping of ranks, fabric and policy make a job fastest."""
