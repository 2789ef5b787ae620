"""``ocs-codesign library-time``, ``calibrate`` and ``measure``: what machines take."""

from __future__ import annotations

from pathlib import Path

import click

from ocs_codesign.core.quantities import parse_size, whole
from ocs_codesign.faces.cli.commands import OUTPUT, argument, command, option
from ocs_codesign.faces.cli.machine_options import machine_of, machine_option_of
from ocs_codesign.faces.cli.message_options import messages_option_of
from ocs_codesign.faces.cli.options import INPUT, collective_choice
from ocs_codesign.faces.cli.output import Answer, answered

LIBRARY_COLLECTIVES = (
    "allreduce",
    "allgather",
    "reduce-scatter",
    "broadcast",
    "reduce",
    "alltoall",
)
AUTOPARALLEL = "autoparallel"
MODELS = ("2.27", "2.30", AUTOPARALLEL)
"""As nccl.MODELS has them, which is not imported where a command line only starts."""


machine_required = machine_option_of(
    "A machine such as dgx-h100, or a file that calibrate has written.", required=True
)


def read_bytes(text: str) -> float:
    """A size, which without a unit is in bytes."""
    return parse_size(text if whole(text.strip()) is None else f"{text.strip()}B")


@command("library-time")
def library_time(
    machine: str = machine_required,
    collective: str = collective_choice(*LIBRARY_COLLECTIVES),
    nodes: int = option("--nodes", type=click.IntRange(min=1), default=1, help="Nodes of the job."),
    ranks: int = option(
        "--ranks", type=click.IntRange(min=2), required=True, help="Ranks on all nodes."
    ),
    messages: tuple[float, ...] = messages_option_of(
        "M, the buffer of a rank", read_bytes, required=True
    ),
    model: str | None = option(
        "--nccl",
        type=click.Choice(MODELS),
        help="Whose model: NCCL's own of a version, or AutoParallel's, which tests arithmetic "
        "(default: the curve of the machine's log, else 2.30).",
    ),
) -> Answer:
    """Say what a library takes for a collective, and which of its algorithms and protocols.

    NCCL's model is its own expectation, to the digit that it logs; a curve is what a log measured.

    \b
    Example:
      ocs-codesign library-time --machine dgx-h100 --nodes 2 --ranks 16 --message 1KiB,1GiB
    """
    from ocs_codesign.core.machines.machine import machine_named
    from ocs_codesign.core.machines.nccl import MODELS as OF_NCCL
    from ocs_codesign.core.machines.nccl import LibraryTime

    real, sizes = machine_named(machine), [int(size) for size in messages]
    if model == AUTOPARALLEL:
        from ocs_codesign.core.machines.autoparallel import autoparallel_us

        name = real.name.rpartition("dgx-")[2].partition("-")[0]
        times = [
            LibraryTime(size, autoparallel_us(name, collective, ranks, nodes, size) / 1e6)
            for size in sizes
        ]
        said = "AutoParallel, June 2026"
    else:
        times = real.library(collective, ranks, nodes, sizes, model)
        is_curve = model is None and real.curve(collective, ranks, nodes) is not None
        said = "curve of a log" if is_curve else f"NCCL {model or OF_NCCL[-1]}"
    asked = {"collective": collective, "ranks": ranks, "nodes": nodes}
    return answered("machines.library", real, said, times, asked)


@command(plot="what was measured and the law, or the parts of steps")
def calibrate(
    logs: tuple[str, ...] = argument("logs", metavar="LOG...", nargs=-1, required=True, type=INPUT),
    machine: str | None = machine_option_of(
        "The kind of machine, where the log does not name its accelerator: for what one log cannot "
        "say."
    ),
    collective: str | None = collective_choice(
        *(*LIBRARY_COLLECTIVES, "gather", "scatter", "sendrecv"),
        default=None,
        help="The collective of a log that does not name it.",
    ),
    nodes: int | None = option(
        "--nodes", type=click.IntRange(min=1), help="Nodes, where a log names no hosts."
    ),
    ranks: int | None = option(
        "--ranks", type=click.IntRange(min=2), help="Ranks, where a log does not say them."
    ),
    path: str | None = option(
        "--out",
        type=OUTPUT,
        metavar="FILE",
        help="Write the machine (for --machine) or the job there.",
    ),
) -> Answer:
    """Make a machine from LOGs: latency, rate and where its fabric stands, with intervals.

    Or give JOB, CLUSTER and measured training steps, as iterate takes the first two: tables (CSV:
    keys of the job where a row differs, and seconds) or logs of NeMo, Megatron-LM or torchtitan.
    From three steps or more it fits what products and attention sustain and what elementwise
    kernels move; --out writes the job with these factors, for iterate and codesign.

    LOGs are of nccl-tests or rccl-tests (text or JSON), OSU, Intel MPI, perftest, or a Markdown
    table of rates. One small message over two nodes is enough to place a fabric; several numbers of
    ranks tell a launch, hops inside nodes and hops between apart.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign calibrate nccl.log --out tcpxo.json
      ocs-codesign calibrate llama3_70b.yaml h100x64.yaml measured.csv --out mine.yaml
    """
    from ocs_codesign.jobs.files.step_files import is_step_file

    if is_step_file(logs[0]):
        if any(each is not None for each in (machine, collective, nodes, ranks)):
            raise click.UsageError("JOB and CLUSTER say what was measured: give no other options")
        from ocs_codesign.faces.cli.steps import calibrated_step

        return calibrated_step(logs, path)
    from ocs_codesign.core.machines.machine import machine_text
    from ocs_codesign.interop.calibrating import calibrated
    from ocs_codesign.interop.logs import read_log

    runs = [run for log in logs for run in read_log(Path(log), collective, ranks)]
    found = calibrated(runs, machine_of(machine), nodes)
    files = {} if path is None else {path: machine_text(found.machine).encode()}
    figure = ("calibration.calibration_figure", found)
    return answered("machines.calibration", found, out=path, files=files, figure=figure)


@command()
def measure(
    ranks: int | None = option(
        "--ranks",
        type=click.IntRange(2, 64),
        help="Ranks to start; without it this is one of them.",
    ),
    runtime: str = option(
        "--on", type=click.Choice(("mpi", "torch")), default="mpi", help="Whose ranks: see above."
    ),
    path: str | None = option(
        "--out", type=OUTPUT, metavar="FILE", help="Write the machine there, for --machine."
    ),
) -> Answer | int:
    """Measure every pair of ranks: ping-pong small and large, sends alone.

    It starts processes of MPI with Open MPI's mpirun, or of PyTorch over gloo, or is one of those
    of mpirun -n N ocs-codesign measure, or of torchrun -m ocs_codesign measure --on torch. Groups
    of near ranks are found from the latencies. The machine has one protocol, MPI or gloo, and its
    classes of links are inside of groups and between them, each number with its middle half.

    \b
    Example:
      ocs-codesign measure --ranks 2 --out here.json
    """
    from ocs_codesign.core.machines.machine import machine_text
    from ocs_codesign.faces.cli.progress import progress
    from ocs_codesign.interop.run.measuring import machine_of_probes
    from ocs_codesign.interop.runtimes.registry import RUNTIMES

    on = RUNTIMES[runtime]
    if on.is_joined() == (ranks is not None):
        raise click.UsageError(
            f"--ranks is for ranks that are started here, but {on.starter} has started this one"
            if ranks is not None
            else f"give --ranks, the ranks to start, or start this with {on.starter}"
        )
    with progress("Measuring"):
        probes = None if on.measured is None else on.measured(ranks)
    if probes is None:
        return 0
    machine = machine_of_probes(probes)
    files = {} if path is None else {path: machine_text(machine).encode()}
    return answered("machines.measured", probes, machine, files=files)
