"""Clusters of servers whose NICs hang on optical planes: which recipe suits them."""
