"""interop.nccl."""
