"""The example files as an answer: what each is, and a command to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign.faces.answers.sections import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ocs_codesign.faces.answers.sections import Section


_RATES = "--alpha 10us --bandwidth 400Gbps"
EXAMPLES = {
    "trace.csv": (
        "collectives of a training job",
        f"plan trace.csv --nodes 16 --degree 4 --delta 100us {_RATES}",
    ),
    "steps.csv": (
        "steps of an allreduce",
        "planes steps.csv --planes 2 --bandwidth 400Gb/s --delta 200us",
    ),
    "demand.csv": ("traffic between experts", "demand demand.csv --delta 20us --bandwidth 400Gbps"),
    "fabric64.yaml": ("a fabric of 64 hosts", "fabric check fabric64.yaml"),
    "servers.yaml": ("servers of GPUs", "cluster servers.yaml --message 64MiB"),
    "moe_workload.yaml": (
        "a workload for it",
        "select --fabric fabric64.yaml --workload moe_workload.yaml",
    ),
    "layers.yaml": ("the layers of a training step", "compare-policies layers.yaml"),
    "groups.yaml": (
        "two groups at once",
        "iterate groups.yaml --network 'leaf_spine(2,2,1,1,1)' --cut-through",
    ),
    "experts.yaml": (
        "experts whose circuits change",
        "iterate experts.yaml --designs 'Circulant(16,(4,8))' --designs "
        "'GeneralizedKautz(3,16)' --delta 20us",
    ),
    "gpt3.yaml": ("GPT-3 and how it is divided", "iterate gpt3.yaml"),
    "mixtral.yaml": ("a mixture of experts", "iterate mixtral.yaml"),
    "dlrm.yaml": ("a recommender", "iterate dlrm.yaml"),
    "resnet50.yaml": ("a residual network", "compare-policies resnet50.yaml"),
    "cluster256.yaml": ("accelerators in servers", "codesign mixtral.yaml cluster256.yaml"),
    "cluster250.yaml": ("250 hosts of one accelerator", "codesign resnet50.yaml cluster250.yaml"),
    "cluster16384.yaml": (
        "16,384 accelerators in servers",
        "codesign gpt3.yaml cluster16384.yaml --policy p3",
    ),
    "gpt3_budget.yaml": (
        "what GPT-3 sends in four dimensions",
        "allocate gpt3_budget.yaml --total 600GB/s",
    ),
    "neighbours.csv": ("what LLDP saw of its hosts", "verify-bundle moe --observed neighbours.csv"),
}
"""What every file is, and a command that reads it."""


def example_json(directory: str, written: Iterable[str]) -> dict[str, Any]:
    """The files and which of them were written now."""
    new = {Path(path).name for path in written}
    return {
        "directory": directory,
        "files": [
            {"file": name, "what": what, "command": f"ocs-codesign {command}", "new": name in new}
            for name, (what, command) in EXAMPLES.items()
        ],
    }


def example_sections(directory: str) -> Iterator[Section]:
    """The same to read."""
    rows = [(name, what) for name, (what, _) in EXAMPLES.items()]
    yield Table(("file", "what it is"), rows, texts=1)
    yield "\nTry:"
    yield from (f"ocs-codesign {command}" for _, command in EXAMPLES.values())
    yield f"\nThe files are in {directory}."
