"""The explorer: designs of a catalogue as pages of a browser, written to a directory or served."""
