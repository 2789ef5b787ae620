"""``ocs-codesign fuse``: when an operator fused with its collective pays."""

from __future__ import annotations

from typing import Any

import click

from ocs_codesign.cli.options import (
    alpha_option_of,
    bandwidth_option_of,
    json_option,
    quantity_option,
)
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.quantities import parse_bandwidth, parse_time

NAMES = ("embedding", "gemv", "gemm")
DEFAULT_SIZES = (1024, 2048, 4096, 8192, 16384)


def _ratio(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not 0 <= value < 10:
        raise click.BadParameter(f"{value} is not from 0 to 10", ctx, param)
    return value


@click.command(short_help="Fuse an operator with its collective: when it pays.")
@click.argument("operator", type=click.Choice(NAMES))
@click.option("--ranks", type=click.IntRange(2, 2**20), required=True, help="Ranks of the group.")
@click.option(
    "--size",
    "sizes",
    type=click.IntRange(1, 2**20),
    multiple=True,
    help="Samples (embedding), rows (gemv) or width (gemm); may be repeated (default: 1024 to "
    "16384).",
)
@alpha_option_of("Latency of a message, such as 2us.", required=True)
@bandwidth_option_of("Egress of a rank, such as 400Gbps.", required=True)
@click.option(
    "--peak",
    type=click.FloatRange(min=0, min_open=True),
    default=312e12,
    show_default=True,
    help="Operations a second of a processor.",
)
@quantity_option("--memory", parse_bandwidth, "Bandwidth of its memory (default: 2TB/s).")
@click.option(
    "--at-a-time",
    type=click.IntRange(1, 2**20),
    default=108,
    show_default=True,
    help="Workgroups that run at a time.",
)
@click.option(
    "--slowdown",
    type=float,
    callback=_ratio,
    default=0.0,
    show_default=True,
    help="How much longer a workgroup takes in the fused kernel, such as 0.05.",
)
@quantity_option("--overhead", parse_time, "What every slice takes on the channel more.")
@json_option
def fuse(
    operator: str, ranks: int, sizes: tuple[int, ...], json_path: str | None, **options: Any
) -> int:
    """Compare an operator and its collective after it with one kernel that does both.

    embedding is pooling and an all-to-all, gemv a matrix times a vector and an allreduce, gemm a
    matrix product and an all-to-all. In the fused kernel a workgroup sends its result as soon as
    it has it, those for other ranks first. Kernels take the longer of what their operations and
    their bytes of memory take.

    \b
    Example:
      ocs-codesign fuse gemm --ranks 8 --alpha 2us --bandwidth 400Gbps
    """
    check_outputs(json_path)
    from ocs_codesign.answers.fusing import FusingAnswer, fusing_json, fusing_sections
    from ocs_codesign.cost import CostModel
    from ocs_codesign.workload.fused import OPERATORS, Accelerator, operator_of

    model = CostModel(options["alpha"], options["bandwidth"])
    processor = Accelerator(options["peak"], options["memory"] or 2e12, options["at_a_time"])
    found = [
        (
            size,
            operator_of(
                *(operator, size, ranks, processor, model),
                options["slowdown"],
                options["overhead"] or 0,
            ),
        )
        for size in sorted(set(sizes)) or DEFAULT_SIZES
    ]
    answer = FusingAnswer(OPERATORS[operator][1], ranks, tuple(found))
    emit(fusing_json(answer), json_path, fusing_sections(answer))
    return 0
