"""RankProgram: a verified schedule as operations of ranks."""
