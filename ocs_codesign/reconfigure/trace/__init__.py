"""Jobs: which topology to hold for which collective of a trace."""
