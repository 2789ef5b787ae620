"""Published training runs, each as files of a job and of a cluster; exact cases beside them.

The rows of training_runs.json: tps are tokens a second and accelerator as published, N the
accelerators, gbs and mbs sequences of a batch and of a microbatch, tp, pp, cp, ep, vp degrees,
fsdp ZeRO's stage, rec, attn and fw recomputation, attention and software.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ocs_codesign.jobs.files.job_cluster_files import parse_room
from ocs_codesign.jobs.files.step_files import parse_step

if TYPE_CHECKING:
    from ocs_codesign.jobs.training.room import Room
    from ocs_codesign.jobs.training.step import TrainedStep

SOFTWARE = {
    "composer": "composer",
    "tt": "torchtitan",
    "tt-eager": "torchtitan-eager",
    "nemo": "nemo",
    "meta": "meta",
    "megatron21": "megatron-2021",
    "megatron22": "megatron-2022",
    "deepspeed20": "deepspeed-2020",
    "dualpipe": "dualpipe",
}
ATTENTION = {"fa1": "flash-1", "fa2": "flash-2", "fa3": "flash-3", "unfused": "unfused"}
RECOMPUTE = {"selective": "attention", "op": "second", "moe": "experts"}


@cache
def known() -> dict[str, Any]:
    """Models, hardware, rows and exact cases by name."""
    return dict(json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")))


def files_of(row: dict[str, Any]) -> tuple[str, str]:
    """The job and the cluster of a published run, as YAML."""
    model, chip = known()["models"][row["model"]], known()["hardware"][row["hw"]]
    keys = {
        "layers": "L",
        "hidden": "h",
        "heads": "a",
        "kv_heads": "kv",
        "vocabulary": "V",
        "head_dim": "hd",
        "experts": "E",
        "top_k": "k",
        "expert_feed_forward": "fe",
        "shared_experts": "shared",
        "dense_layers": "dense",
        "latent": "mla",
        "window": "window",
    }
    shape: dict[str, Any] = {name: model[key] for name, key in keys.items() if key in model}
    shape |= {"feed_forward": model["f"] or model["fe"]}
    shape |= {"gated": bool(model["gated"]), "tied": bool(model["tied"])}
    shape |= {"expert_servers": 4} if "mla" in model else {}
    software = SOFTWARE[row["fw"]] + ("-async" if row.get("asynctp") else "")
    step: dict[str, Any] = {
        "software": software,
        "precision": row["dtype"],
        "attention": ATTENTION[row["attn"]],
        "microbatch": row["mbs"],
        "context": row["cp"],
        "recompute": RECOMPUTE.get(row["rec"], row["rec"]),
        "gradient_bytes": 2 if row["fw"] == "deepspeed20" else 4,
    }
    dualpipe = row["fw"] == "dualpipe"
    step |= {"schedule": "dualpipe"} if dualpipe else {}
    parallel = {
        "data": row["N"] // (row["tp"] * row["pp"] * row["cp"]),
        "tensor": row["tp"],
        "pipeline": row["pp"],
        "expert": row["ep"],
        "zero": row["fsdp"],
        "chunks": 1 if dualpipe else row["vp"],
        "schedule": "interleaved" if row["vp"] > 1 else "1f1b",
        "step": step,
    }
    job = {
        "name": row["id"],
        "model": {"kind": "transformer", **shape, "sequence": row["seq"], "batch": row["gbs"]},
        "parallel": parallel,
    }
    servers = {"count": max(1, -(-row["N"] // chip["g"])), "accelerators": chip["g"]}
    cluster = {
        "name": row["hw"],
        "servers": {**servers, "scale_up": f"{chip['nv'] / 1e9:g}GB/s"},
        "accelerator": {"name": row["hw"]},
        "network": {"bandwidth": f"{chip['net'] / 1e9:g}GB/s"},
    }
    return yaml.safe_dump(job), yaml.safe_dump(cluster)


def published(row: dict[str, Any]) -> tuple[TrainedStep, Room]:
    """A published run read from its files: the step, and the room it is on."""
    return _read(*files_of(row))


@cache
def _read(job: str, cluster: str) -> tuple[TrainedStep, Room]:
    step = parse_step(job.encode(), "job.yaml")
    return step, parse_room(cluster.encode(), "cluster.yaml")[1]
