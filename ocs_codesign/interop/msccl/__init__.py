"""interop.msccl."""
