"""Files of strangers and our own: read within limits, written whole or not at all."""
