"""HiGHS through its array interface."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ocs_codesign.core.lp.program import (
    BRANCH_AND_BOUND,
    FIRST_ORDER,
    HIGHS,
    IPX,
    IPX_NO_CROSSOVER,
    SIMPLEX,
    Basis,
    BasisStatus,
    Raw,
    Status,
    unbounded_or_infeasible,
    without_package,
    without_point,
    worked_out,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.core.lp.program import LinearProgram, Options, Solution


NAME = HIGHS
HEARS_WITHIN_S = 1.0
KEEPS_POINT = (
    Status.OPTIMAL,
    Status.TIME_LIMIT,
    Status.NODE_LIMIT,
    Status.MEMORY,
    Status.INTERRUPTED,
    Status.FAILED,
)


@final
@dataclass(frozen=True, slots=True)
class _Engine:
    """One of HiGHS's algorithms: its method, its own name and options."""

    method: str
    name: str
    settings: tuple[tuple[str, Any], ...] = ()
    keeps_iterate: bool = True


_IPX_ALONE = _Engine(IPX_NO_CROSSOVER, "ipx", (("solver", "ipx"), ("run_crossover", "off")))
ENGINES = {
    SIMPLEX: (_Engine(SIMPLEX, "simplex", (("solver", "simplex"),)),),
    # "ipm" would let HiGHS choose another interior point method.
    IPX: (_Engine(IPX, "ipx", (("solver", "ipx"),)),),
    IPX_NO_CROSSOVER: (_IPX_ALONE,),
    # On all-to-all programs of random digraphs hipdlp is 2 to 6 times as fast as pdlp, but on those
    # of tori, hypercubes and rings it may never end, and then leaves nothing. pdlp always ended.
    FIRST_ORDER: (
        _Engine(
            FIRST_ORDER,
            "hipdlp",
            (("solver", "hipdlp"), ("pdlp_iteration_limit", 10_000)),
            keeps_iterate=False,
        ),
        _Engine(FIRST_ORDER, "pdlp", (("solver", "pdlp"), ("pdlp_iteration_limit", 500_000))),
        _IPX_ALONE,
    ),
    BRANCH_AND_BOUND: (_Engine(BRANCH_AND_BOUND, BRANCH_AND_BOUND),),
}
"""The engines of a method, to be tried in this order until one ends with an answer.

A time limit stops whichever runs: to give each a share would leave hipdlp unfinished in time that
it would have ended in.
"""


def solve_highs(program: LinearProgram, options: Options) -> Solution:
    """Solve with HiGHS; Ctrl-C ends the solve with Status.INTERRUPTED and what it has.

    An engine that does not hear it within HEARS_WITHIN_S is left to itself: KeyboardInterrupt.
    """
    method = options.method_for(program)
    try:
        import highspy  # noqa: F401
    except ImportError as error:
        return without_package(error, NAME, method, "highspy")
    began = time.monotonic()
    engines = ENGINES[method]
    solution = kept = without_point(Status.FAILED, NAME, method)
    for engine in engines:
        left = options.after(time.monotonic() - began)
        solution = _run(program, engine, left)
        kept = solution if solution.has_point else kept
        if solution.status not in (Status.FAILED, Status.REFUSED):
            break
    if solution.status is Status.UNBOUNDED:
        left = options.after(time.monotonic() - began)
        status = unbounded_or_infeasible(program, solve_highs, left)
        return without_point(status, NAME, method)
    if kept.has_point and not solution.has_point and solution.status in KEEPS_POINT:
        return replace(kept, status=solution.status, message=f"{kept.message}; {solution.message}")
    return solution


def _run(program: LinearProgram, engine: _Engine, options: Options) -> Solution:
    import highspy

    highs = _silent_class()()
    for name, value in _settings(engine, options):
        if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            reason = f"HiGHS {highs.version()} does not take {name} = {value}"
            return without_point(Status.REFUSED, NAME, engine.method, reason)
    if highs.passModel(_model(program)) == highspy.HighsStatus.kError:
        reason = "it refused the arrays, as for a column twice in a row or an entry above 1e15"
        return without_point(Status.FAILED, NAME, engine.method, reason)
    if options.start is not None and engine.method == SIMPLEX:
        _begin_at(highs, program, options.start)
    interrupted = _was_interrupted(highs)
    status = _status(highspy.HighsModelStatus, highs.getModelStatus())
    if interrupted and status in (Status.FAILED, Status.TIME_LIMIT):
        status = Status.INTERRUPTED
    if status not in KEEPS_POINT:
        return without_point(status, NAME, engine.method)
    raw = _raw(highs, status, engine, mixed=program.is_mixed_integer)
    return worked_out(program, raw, NAME, engine.method, options.tolerance)


@cache
def _silent_class() -> Any:
    """HiGHS without output: since 1.16 its banner comes before options of a solver can be set."""
    import highspy

    class Silent(highspy.Highs):
        def enableCallbacks(self) -> None:  # noqa: N802 (the last that its constructor calls)
            self.setOptionValue("output_flag", False)
            usual: Any = super()
            usual.enableCallbacks()

    return Silent


def _settings(engine: _Engine, options: Options) -> list[tuple[str, Any]]:
    settings: list[tuple[str, Any]] = [("threads", options.threads), *engine.settings]
    settings.append(("small_matrix_value", 1e-12))  # by default entries of 1e-9 vanish
    if not options.presolve:
        settings.append(("presolve", "off"))
    if options.time_limit_s is not None:
        settings.append(("time_limit", options.time_limit_s))
    if options.tolerance is not None:
        settings.append(("kkt_tolerance", options.tolerance))
    if engine.method == BRANCH_AND_BOUND:
        settings.append(("mip_rel_gap", options.mip_gap))
        if options.node_limit is not None:
            settings.append(("mip_max_nodes", options.node_limit))
        if options.tolerance is not None:
            settings.append(("mip_feasibility_tolerance", options.tolerance))
    return settings


def _model(program: LinearProgram) -> Any:
    import highspy

    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = program.num_columns, program.num_rows
    model.col_cost_ = program.cost
    model.col_lower_, model.col_upper_ = program.col_lower, program.col_upper
    model.row_lower_, model.row_upper_ = program.row_lower, program.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = program.start
    model.a_matrix_.index_ = program.index
    model.a_matrix_.value_ = program.values
    if program.integer is not None:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[bool(integer)] for integer in program.integer]
    return model


def _begin_at(highs: Any, program: LinearProgram, start: Basis) -> None:
    """Begin at a basis, in which rows that it does not know are basic, if it fits the program."""
    import highspy

    new_rows = program.num_rows - len(start.rows)
    if len(start.columns) != program.num_columns or new_rows < 0:
        return
    basis = highspy.HighsBasis()
    states = (*start.rows.tolist(), *[BasisStatus.BASIC] * new_rows)
    basis.col_status = [highspy.HighsBasisStatus(state) for state in start.columns.tolist()]
    basis.row_status = [highspy.HighsBasisStatus(int(state)) for state in states]
    basis.valid = True
    highs.setBasis(basis)


_SOLVING = threading.Lock()
"""Solvers of highspy share the locks of their class: one thread at a time can have one started."""


def _was_interrupted(highs: Any) -> bool:
    """Run in a thread of its own, so that Ctrl-C is heard, and say whether it was.

    The thread also has its own scheduler: the next solve may use another number of threads, and a
    process forked afterwards does not wait for threads that it does not have. First-order engines
    and crossovers do not hear it: their thread, a daemon, is left behind, or ends with the process.
    """
    highs.HandleUserInterrupt = True
    try:
        with _SOLVING:
            with _ctrl_c_later():
                highs.startSolve()
            _wait(highs)
    except KeyboardInterrupt:
        highs.cancelSolve()
        if not highs.wait(HEARS_WITHIN_S)[0]:
            atexit.register(_end_without, highs)
            raise
        return True
    return False


def _end_without(highs: Any) -> None:
    """End an interrupted process in which an engine still runs: Python aborts if it comes back."""
    if not highs.wait(0)[0]:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(128 + signal.SIGINT)


@contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Hold a Ctrl-C back until the block is over; only the main thread ever gets one.

    One that breaks off the start of the thread leaves it running, and then Python cannot end well.
    """
    usual = signal.getsignal(signal.SIGINT)
    if usual is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if came:
        raise KeyboardInterrupt


def _wait(highs: Any) -> None:
    """Until HiGHS is done; after Ctrl-C in a join, Python 3.11 takes a running thread as ended."""
    while not highs.wait(1.0)[0]:
        pass


def _status(names: Any, model_status: Any) -> Status:
    return {
        names.kOptimal: Status.OPTIMAL,
        names.kModelEmpty: Status.OPTIMAL,
        names.kInfeasible: Status.INFEASIBLE,
        names.kUnbounded: Status.UNBOUNDED,
        names.kUnboundedOrInfeasible: Status.UNBOUNDED,
        names.kTimeLimit: Status.TIME_LIMIT,
        names.kSolutionLimit: Status.NODE_LIMIT,  # the only limit of its kind that is set
        names.kMemoryLimit: Status.MEMORY,
        names.kInterrupt: Status.INTERRUPTED,
        names.kHighsInterrupt: Status.INTERRUPTED,
    }.get(model_status, Status.FAILED)


def _raw(highs: Any, status: Status, engine: _Engine, *, mixed: bool) -> Raw:
    found, info, basis = highs.getSolution(), highs.getInfo(), highs.getBasis()
    counts = {
        "simplex": info.simplex_iteration_count,
        "interior point": info.ipm_iteration_count,
        "crossover": info.crossover_iteration_count,
        "first-order": info.pdlp_iteration_count,
    }
    how = " and ".join(f"{n} {name} iterations" for name, n in counts.items() if n > 0)
    how = f"{engine.name} ({how or 'solved by presolve'})"
    if mixed:
        how = f"{engine.name} ({max(info.mip_node_count, 0)} nodes)"
    bound = float(info.mip_dual_bound) if mixed and np.isfinite(info.mip_dual_bound) else None
    # A program without columns and rows is optimal without a valid solution.
    everything = status is Status.OPTIMAL and not len(found.col_value) + len(found.row_dual)
    useful = status is Status.OPTIMAL or engine.keeps_iterate
    has_values, has_duals = found.value_valid or everything, found.dual_valid or everything
    has_basis = basis.valid or everything
    return Raw(
        status,
        how,
        np.array(found.col_value, dtype=np.float64) if useful and has_values else None,
        np.array(found.row_dual, dtype=np.float64) if useful and has_duals and not mixed else None,
        _basis(basis) if useful and has_basis and not mixed else None,
        bound,
    )


def _basis(basis: Any) -> Basis | None:
    columns = np.array(basis.col_status, dtype=np.int8)
    rows = np.array(basis.row_status, dtype=np.int8)
    # HiGHS numbers them as BasisStatus does; beyond it only "nonbasic, wherever" is left.
    known = max(BasisStatus)
    return (
        Basis(columns, rows) if max(columns.max(initial=0), rows.max(initial=0)) <= known else None
    )
