"""Run the experiments, or check that their tables are the bytes in figures/.

    python experiments/run.py --all [--quick] [--benchmarks]
    python experiments/run.py --check [--quick]
    python experiments/run.py --redraw NAME ...

`--all` runs every experiment, with `--benchmarks` those that time as well; `--quick` is passed on,
so small sizes run and nothing is written. `--check` makes the CSVs of the reproducible experiments
again in a temporary directory and exits with 1 naming the first that differs; with `--quick` the
fast ones at full size, and of the slow ones the small sizes, whose rows must be lines of the table.
The named graphs and the stored schedules have scripts and a `--check` of their own. `--redraw`
draws pictures again from the tables in figures/, which stay what they are: of every experiment
whose `picture` needs its table alone.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import inspect
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from reporting import EXPERIMENTS, FIGURES

from ocs_codesign.core.files.atomic import write_files
from ocs_codesign.faces.pictures import figure_bytes

FAST = (
    *("testbed_sizes", "published_frontier", "allreduce_time", "forest_times"),
    *("fused_operators", "split_budgets", "published_steps", "public_logs", "late_schedules"),
)
SLOW = (
    "frontier_by_nodes",
    "against_published",
    "alltoall_by_nodes",
    "exact_frontiers",
    "break_even",
    "configurations",
    "demand_matrices",
    "overlap",
    "held_state",
    "worked_example",
    "damage",
    "loss_of_hosts",
    "algbw_by_boxes",
    "best_schedules",
    "pod_slices",
    "native_algorithms",
    "policies_by_speed",
    "every_size",
    "gaps_by_nodes",
    "in_network",
    "codesigned_fabrics",
    "log_to_choice",
    "faster_fabrics",
    "experts_by_fabric",
)
BENCHMARKS = (
    *("benchmark_bfb", "benchmark_forest", "generation_time", "greedy_table"),
    "benchmark_runtimes",
)


def run(name: str, arguments: Sequence[str], *, quiet: bool = False) -> None:
    """One experiment in its own process; SystemExit with its exit code if it fails."""
    command = [sys.executable, str(EXPERIMENTS / f"{name}.py"), *arguments]
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL if quiet else None)
    if done.returncode:
        sys.stderr.write(f"{name} failed with exit code {done.returncode}\n")
        sys.exit(done.returncode)


def difference(made: Path, stored: Path) -> str:
    """Where two files differ first, in words; empty if they are the same bytes."""
    if not stored.is_file():
        return "is missing"
    ours, theirs = made.read_bytes(), stored.read_bytes()
    if ours == theirs:
        return ""
    pairs = zip(ours.splitlines(), theirs.splitlines(), strict=False)
    line = next((at for at, (one, other) in enumerate(pairs, 1) if one != other), None)
    return f"differs in line {line}" if line else "differs in length"


def absence(made: Path, stored: Path) -> str:
    """The first line of a quick table, but its provenance, that the stored table does not have."""
    if not stored.is_file():
        return "is missing"
    known = set(stored.read_bytes().splitlines())
    lines = enumerate(made.read_bytes().splitlines()[1:], 2)
    line = next((at for at, content in lines if content not in known), None)
    return f"lacks line {line} of the quick table" if line else ""


def check(names: Sequence[str], in_part: Sequence[str] = ()) -> None:
    """Make the tables again; SystemExit with 1 at the first that is not the one in figures/.

    Of the experiments ``in_part`` only the quick tables are made.
    """
    with TemporaryDirectory() as directory:
        for name in (*names, *in_part):
            quick = name in in_part
            run(name, ["--out", directory, *(["--quick"] if quick else [])], quiet=True)
            made, stored = Path(directory) / f"{name}.csv", FIGURES / f"{name}.csv"
            found = absence(made, stored) if quick else difference(made, stored)
            reproduced = "is reproduced at small sizes" if quick else "is reproduced"
            sys.stdout.write(f"figures/{name}.csv {found or reproduced}\n")
            if found:
                sys.exit(1)


def redraw(name: str) -> None:
    """Draw the picture of an experiment again; SystemExit where its table alone does not do."""
    drawn = None
    if (EXPERIMENTS / f"{name}.py").is_file():
        drawn = getattr(importlib.import_module(name), "picture", None)
    needs = [] if drawn is None else list(inspect.signature(drawn).parameters.values())
    given = [each.name for each in needs if each.default is inspect.Parameter.empty]
    if drawn is None or given != ["table"]:
        sys.exit(f"{name}: its picture is not drawn from its table alone; run the experiment")
    with (FIGURES / f"{name}.csv").open(encoding="utf-8") as file:
        next(file)  # the provenance
        lines = [
            {field: value(text) for field, text in line.items()} for line in csv.DictReader(file)
        ]
    write_files({FIGURES / f"{name}.png": figure_bytes(drawn(lines), ".png")})
    sys.stdout.write(f"figures/{name}.png is drawn again\n")


def value(text: str) -> object:
    """What a cell of a table was: a whole number, another, a truth or a text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text, text)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--all", action="store_true", help="run every experiment")
    what.add_argument("--check", action="store_true", help="compare the tables with figures/")
    what.add_argument("--redraw", nargs="+", metavar="NAME", help="draw again from the tables")
    parser.add_argument("--quick", action="store_true", help="small sizes; check what is fast")
    parser.add_argument("--benchmarks", action="store_true", help="with --all: those that time too")
    given = parser.parse_args()
    if given.check and given.benchmarks:
        parser.error("--check and --benchmarks: timings are not reproducible")
    for name in given.redraw or ():
        redraw(name)
    if given.check:
        if given.quick:
            check(FAST, in_part=SLOW)
        else:
            check(FAST + SLOW)
    if given.check or given.redraw:
        return
    for name in (*FAST, *SLOW, *(BENCHMARKS if given.benchmarks else ())):
        sys.stdout.write(f"== {name}\n")
        sys.stdout.flush()
        run(name, ["--quick"] if given.quick else [])


if __name__ == "__main__":
    main()
