"""interop.mscclpp."""
