"""interop.chakra."""
