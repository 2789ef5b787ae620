"""interop.lowering."""
