"""Models of training: what their layers compute and send, and how ranks divide them."""
