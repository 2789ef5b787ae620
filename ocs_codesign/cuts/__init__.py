"""Cuts: the sets of nodes that let too little out, and what rates they allow."""
