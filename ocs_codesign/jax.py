"""JAX over schedules: ``collective(book)`` is for ``shard_map``, ``mesh`` orders devices."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("jax") is None:
    raise ImportError("jax is missing: pip install 'ocs-codesign[jax]'")

from ocs_codesign.interop.runtimes.jax_collectives import collective, mesh

__all__ = ["collective", "mesh"]
