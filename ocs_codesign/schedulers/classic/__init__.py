"""Classic algorithms on N ranks: who sends what to whom in every step, on whatever network."""
