"""Fits the step model's constants on published training runs, and prints them.

Least squares of the logarithms of predicted over published speed, where large errors pull less and
the runs of a large source together no more than those of a small one; constants are pulled weakly
to what they are, and held below micro-benchmarks. Layer times of Korthikanti et al. (MLSys 2023,
table 4) count as well.

    python experiments/fit_training.py [--half 0|1] [--without SOURCE]

prints constants as they go into jobs/training/software.toml and chips.toml, in minutes; with --half
it fits every other run and judges the rest; with --without it fits all but one source, whose own
constants start from what is known without it, and writes them to training_left_out.json.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import least_squares
from training_runs import known, published

from ocs_codesign.jobs.models.layer import Transformer
from ocs_codesign.jobs.training.constants import (
    chips,
    constants,
    software,
    software_named,
    with_constants,
)
from ocs_codesign.jobs.training.division import Division
from ocs_codesign.jobs.training.layers import Method
from ocs_codesign.jobs.training.room import Room
from ocs_codesign.jobs.training.step import StepModel, TrainedStep

if TYPE_CHECKING:
    from numpy.typing import NDArray

COMMON = (
    *("half_depth", "inside_share", "contention", "optimizer", "step_s", "expert_layer_s"),
    *("expert_share", "unfused_attention", "narrow_heads", "launch_s", "cast_bytes", "jitter"),
    *("second_products", "flash-1.a100", "flash-1.h100", "flash-2.h100", "flash-3.h100"),
)
CAPS = {
    "inside_share": 0.95,
    "expert_share": 0.95,
    "launch_s": 8e-6,
    "flash-3.h100": 0.70,
    "chip.h100": 0.80,
    "chip.fp8": 0.71,
}
FLOORS = {f"elementwise.{name}": 1.0 for name in ("megatron", "composer", "torchtitan", "fp8")}
PULL, SOFT, WEIGHT_OF_LAYERS, MANY = 0.05, 0.1, 1.5, 6
SOURCES = {
    "torchtitan": ("titan",),
    "Megatron-Bridge": ("bridge",),
    "NeMo": ("nemo",),
    "MPT on H100": ("mpt-h100",),
}
"""Tables of a source by how their names begin."""
UNKNOWN = {
    "torchtitan": {
        "elementwise.torchtitan": 1.0,
        "flash-2.h100": 0.35,  # FlashAttention-3 (2024): what FlashAttention-2 reaches on H100
        "second_products": 0.5,  # every second product
        "chip.h100-500w": 0.663,  # as with 700 W
    },
    "NeMo": {"tensor_hidden": 0.0},
    "MPT on H100": {"flash-1.h100": 0.35},  # as FlashAttention-2
    "Megatron-Bridge": {"expert_layer_s": 0.0001},
}
"""What nobody knew of a source's constants before its runs were published."""
LEFT_OUT = Path(__file__).with_name("training_left_out.json")


def start() -> dict[str, float]:
    """The constants as they are."""
    known_chips, kinds = chips(), software()
    return {
        **{name: constants()[name] for name in COMMON},
        "chip.a100": known_chips["a100"].sustained[0],
        "chip.h100": known_chips["h100"].sustained[0],
        "chip.h100-500w": known_chips["h100-500w"].sustained[0],
        "chip.fp8": known_chips["h100"].sustained[1] or 0.0,
        "elementwise.megatron": kinds["megatron"].elementwise,
        "elementwise.composer": kinds["composer"].elementwise,
        "elementwise.torchtitan": kinds["torchtitan"].elementwise,
        "elementwise.fp8": kinds["nemo"].elementwise_fp8 or 1.0,
        "tensor_hidden": kinds["nemo"].tensor_hidden,
        "context_exposed": kinds["nemo"].context_exposed,
    }


def with_values(
    step: TrainedStep, room: Room, values: dict[str, float]
) -> tuple[TrainedStep, Room]:
    """A run on a chip, and by software, with these constants."""
    chip = room.chip
    if chip.name.startswith("a100"):
        sustained: tuple[float, float | None] = (values["chip.a100"], None)
    elif chip.name == "h100-500w":
        held = values["chip.h100-500w"]
        sustained = (held, values["chip.fp8"] * held / values["chip.h100"])
    else:
        sustained = (values["chip.h100"], values["chip.fp8"])
    kind = step.method.software
    changed: dict[str, Any] = {"elementwise": values["elementwise.megatron"]}
    if kind.name.startswith(("torchtitan", "composer", "fsdp")):
        name = "composer" if kind.name == "composer" else "torchtitan"
        slower = 1.5 if kind.name == "torchtitan-eager" else 1.0
        changed["elementwise"] = slower * values[f"elementwise.{name}"]
    if kind.elementwise_fp8 is not None:
        changed["elementwise_fp8"] = values["elementwise.fp8"]
    if kind.tensor_hidden:
        changed["tensor_hidden"] = values["tensor_hidden"]
    if 0 < kind.context_exposed < 0.3:
        changed["context_exposed"] = values["context_exposed"]
    method = step.method._replace(software=replace(kind, **changed))
    return replace(step, method=method), replace(room, chip=replace(chip, sustained=sustained))


def errors(values: dict[str, float], runs: list[dict[str, Any]]) -> NDArray[np.float64]:
    """Logarithms of predicted over published speed."""
    with with_constants({name: values[name] for name in COMMON}):
        found = []
        for run in runs:
            step, room = with_values(*published(run), values)
            found.append(step.on(room).tokens_per_second_per_accelerator / run["tps"])
    return np.log(found)


def layer_errors(values: dict[str, float]) -> NDArray[np.float64]:
    """Logarithms of predicted over published seconds of a layer of 22B."""
    model = Transformer(48, 6144, 64, 24576, 51200, 2048, 4)
    found = []
    with with_constants({name: values[name] for name in COMMON}):
        for case in known()["layer_times"]:
            again = {"selective": "attention"}.get(case["recompute"], case["recompute"])
            kind = software_named(f"megatron-{2022 if case['sequence_parallel'] else 2021}")
            step = TrainedStep(
                "", model, Division(1, 8, microbatch=4, recompute=again), Method(kind)
            )
            room = Room(chips()["a100"], 1, 8, 300e9, 25e9)
            step, room = with_values(step, room, values)
            made = StepModel(step.model, step.division, room, step.method)
            took = made.layer(sparse=False).total * 1e3
            found.append(took / (case["forward_ms"] + case["backward_ms"]))
    return np.log(found)


def fitted(runs: list[dict[str, Any]], unknown: dict[str, float]) -> dict[str, float]:
    """The constants that agree best with these runs; some start from what was known before."""
    first = start() | unknown
    sizes = Counter(run["table"] for run in runs)
    weights = np.array([min(1.0, (MANY / sizes[run["table"]]) ** 0.5) for run in runs])

    def values(logs: NDArray[np.float64]) -> dict[str, float]:
        found = {}
        for name, log in zip(first, logs, strict=True):
            value = min(first[name] * float(np.exp(log)), CAPS.get(name, np.inf))
            found[name] = max(value, FLOORS.get(name, 0.0))
        return found

    def residuals(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        tried = values(logs)
        parts = (weights * errors(tried, runs), WEIGHT_OF_LAYERS * layer_errors(tried), PULL * logs)
        return np.concatenate(parts)

    found = least_squares(
        residuals, np.zeros(len(first)), loss="soft_l1", f_scale=SOFT, diff_step=0.01, max_nfev=25
    )
    return values(found.x)


def told(name: str, logs: NDArray[np.float64]) -> str:
    """Errors of a set of runs in a line."""
    off = np.abs(np.expm1(logs))
    return f"{name}: {len(off)} runs, median {np.median(off):.4f}, p90 {np.quantile(off, 0.9):.4f}"


def runs_of(source: str) -> list[dict[str, Any]]:
    """The runs of a source."""
    return [run for run in known()["rows"] if run["table"].startswith(SOURCES[source])]


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--half", type=int, choices=(0, 1), help="Fit every other run only.")
    which.add_argument("--without", choices=tuple(SOURCES), help="Fit all but a source's runs.")
    arguments = parser.parse_args()
    half, without = arguments.half, arguments.without
    runs = known()["rows"]
    others = [] if half is None else runs[1 - half :: 2]
    others = others if without is None else runs_of(without)
    mine = [run for run in runs if run not in others]
    values = fitted(mine, UNKNOWN.get(without, {}))
    for name, value in values.items():
        print(f"{name} = {value:.4g}")
    print(told("fitted", errors(values, mine)))
    if others:
        print(told("the others", errors(values, others)))
    if without is not None:
        stored = json.loads(LEFT_OUT.read_text()) if LEFT_OUT.exists() else {}
        stored[without] = {name: float(f"{value:.6g}") for name, value in values.items()}
        LEFT_OUT.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
