"""Exact cases of training steps as values."""

from __future__ import annotations

from ocs_codesign.jobs.models.layer import Transformer
from ocs_codesign.jobs.training.division import Division


def counted(case):
    """The model and the division of an exact case."""
    shape, given = case["model"], case["division"]
    latent = shape.get("mla")
    names = ("q_rank", "kv_rank", "nope", "rope", "value")
    model = Transformer(
        *(shape["layers"], shape["hidden"], shape["heads"]),
        shape.get("feed_forward", shape.get("expert_ff")),
        *(shape["vocabulary"], given["sequence"], given["batch"]),
        kv_heads=shape["kv_heads"],
        gated=shape.get("gated", False),
        experts=shape.get("experts", 1),
        top_k=shape.get("top_k", 1),
        tied=shape.get("tied", False),
        head_dim=shape.get("head_dim"),
        expert_feed_forward=shape.get("expert_ff"),
        shared_experts=shape.get("shared", 0),
        dense_layers=shape.get("dense_layers", 0),
        latent=tuple(latent[name] for name in names) if latent else None,
    )
    division = Division(
        *(given["dp"], given["tp"], given["pp"], given["cp"], given["ep"]),
        zero=given["zero"],
        microbatch=given["microbatch"],
        chunks=given.get("chunks", 1),
        stages=tuple(given["stages"]) if "stages" in given else None,
        recompute=given["recompute"],
        gradient_bytes=given["grad_bytes"],
    )
    return model, division
