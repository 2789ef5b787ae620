"""Jobs as graphs: what their ranks compute and send, what that takes, and what to send first."""
