"""Chakra execution traces: graphs of sends, receives, additions and collectives, a file a rank."""
