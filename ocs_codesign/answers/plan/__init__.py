"""The plan of a trace as an answer: its record in JSON, and sections to read."""
