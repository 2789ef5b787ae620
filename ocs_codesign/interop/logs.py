"""Logs of benchmarks: nccl-tests and rccl-tests in all their layouts, OSU, Intel MPI, perftest.

A log gives runs: a collective of so many ranks, with M in bytes as nccl-tests counts it and the
time in us of each size. Of out of place and in place the lesser counts. Every row of nccl-tests has
to keep busbw = factor * M / t, so a row of another collective, or of other ranks, is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, floor
from statistics import median
from typing import TYPE_CHECKING, Any, Final, final

from ocs_codesign.core.collective import plain_collective
from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.atomic import errors_at
from ocs_codesign.core.files.plain_text import read_plain_text
from ocs_codesign.core.quantities import whole
from ocs_codesign.core.shown import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MAX_LOG_BYTES: Final = 2**26
MAX_TOLD_RANKS: Final = 256
"""Ranks up to which they are told from rates: the square of n amplifies rounding."""

LEAST_BYTES: Final = 64
_FEW_ROWS: Final = 2
_MIB: Final = 2**20
_BUSBW_ERROR: Final = 0.02
_WRONG: Final = "nobody should calibrate with results that are wrong"
BANDWIDTH, LATENCY = "bandwidth", "latency"
"""What perftest measures between two ends, in place of a collective."""

_PREFIX = re.compile(
    r"\s*(?:\d+:\s|\[\d+(?:,\d+)?\](?:<\w+>)?:?\s?|[\w.-]+:\s(?=\s*[#\d])|"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\s)"
)
_STAMP = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d(?:\.\d+)?")
_RANK = re.compile(r"#\s+Rank\s+(\d+)\s.*?\bon\s+(\S+)\s+device\s+\S+\s+\[[^\]]*\]\s*(.*)")
_PROGRAM = re.compile(r"(?:^|[/\s])([a-z_]+)_perf\b")
_VERSION = re.compile(r"(?:NCCL|RCCL) version[ :]+(\d+\.\d+(?:\.\d+)?)", re.IGNORECASE)
_DATE = re.compile(r"\b(20\d\d-\d\d-\d\d)\b")
_PROGRAMS: Final = {"all_reduce": "allreduce", "all_gather": "allgather", "sendrecv": "sendrecv"}
_NUMBER = re.compile(r"[+-]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,3})?")


@final
@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """One run of a log: M in bytes and us by row; ranks and nodes are 0 where it does not say."""

    source: str
    collective: str
    ranks: int
    nodes: int
    rows: tuple[tuple[int, float], ...]
    accelerator: str = ""
    library: str = ""
    date: str = ""


@final
@dataclass(frozen=True, slots=True)
class _Row:
    """A row of nccl-tests: M, and (us, busbw, how finely the time is printed) of each side."""

    size: int
    sides: tuple[tuple[float, float, float], ...]


def factor(collective: str, ranks: int) -> float:
    """busbw over M / t, as nccl-tests reckons it.

    >>> factor("allreduce", 8), factor("broadcast", 8)
    (1.75, 1.0)
    """
    if collective in ("broadcast", "reduce", "sendrecv"):
        return 1.0
    return (2 if collective == "allreduce" else 1) * (ranks - 1) / ranks


def read_log(
    path: Path, collective: str | None = None, ranks: int | None = None
) -> list[BenchmarkRun]:
    """The runs of a file; see ``parse_log``. OSError if it cannot be read."""
    data = read_limited(path, MAX_LOG_BYTES)
    return parse_log(data.decode("utf-8", "replace"), str(path), collective, ranks)


def parse_log(
    text: str, name: str, collective: str | None = None, ranks: int | None = None
) -> list[BenchmarkRun]:
    """The runs of a log, of whatever program wrote it.

    ``collective`` and ``ranks`` are asked for where the log does not say them, and refused where it
    says others. Raises ValueError, with the name and the rule, for what cannot be believed.
    """
    with errors_at(name):
        if text.lstrip()[:1] == "{":
            found = list(_nccl_json(text, name, collective, ranks))
        else:
            lines = [_plain(line) for line in text.splitlines()]
            told = _format(lines)
            found = list(_READERS[told](lines, name, collective, ranks))
        if not found:
            raise ValueError("no row of a benchmark in it")
        if len(found) > 1 and min(len(run.rows) for run in found) <= _FEW_ROWS:
            raise ValueError("the rows of several runs are mixed")
        for run in found:
            if collective is not None and run.collective != collective:
                raise ValueError(f"it is of {run.collective}, and {collective} is asked for")
            if any(not time > 0 for _, time in run.rows):
                raise ValueError("a time is not positive")
        return found


def _plain(line: str) -> str:
    """A line without what launchers put before it, and behind its numbers."""
    for _ in range(3):
        found = _PREFIX.match(line)
        if found is None or not found.end():
            break
        line = line[found.end() :]
    return re.sub(r"(?<=\d)\[\d+\]", "", line).rstrip()


def _format(lines: Sequence[str]) -> str:
    for line in lines:
        low = line.lower()
        if low.startswith("# osu"):
            return "osu"
        if "# benchmarking" in low:
            return "imb"
        if "#iterations" in low and "#bytes" in low:
            return "perftest"
        if "busbw" in low and "|" in line:
            return "table"
    return "nccl-tests"


# nccl-tests and rccl-tests.


def _nccl(
    lines: Sequence[str], name: str, collective: str | None, ranks: int | None
) -> Iterator[BenchmarkRun]:
    run = BenchmarkRun(name, "", 0, 0, ())
    rows: list[_Row] = []
    highest, hosts = 0, set[str]()
    for line in lines:
        rank = _RANK.match(line)
        program = None if rank else _PROGRAM.search(line)
        row = None if rank or line.lstrip()[:1] == "#" else _nccl_row(line)
        is_new = (rank is not None and int(rank[1]) == 0) or program is not None
        if rows and (is_new or (row is not None and row.size <= rows[-1].size)):
            yield _finished(replace(run, ranks=highest, nodes=len(hosts)), rows, collective, ranks)
            rows = []
        if rank is not None:
            if int(rank[1]) == 0:
                highest, hosts = 0, set()
            highest = max(highest, int(rank[1]) + 1)
            hosts.add(rank[2])
            run = replace(run, accelerator=rank[3].strip() or run.accelerator)
        elif program is not None:
            run = replace(run, collective=_collective_of(program[1]))
        elif row is not None:
            rows.append(row)
        version, date = _VERSION.search(line), _DATE.search(line)
        run = replace(
            run,
            library=version[1] if version else run.library,
            date=run.date or (date[1] if date else ""),
        )
    if rows:
        yield _finished(replace(run, ranks=highest, nodes=len(hosts)), rows, collective, ranks)


def _collective_of(program: str) -> str:
    plain = _PROGRAMS.get(program, program)
    return plain_collective(plain)


def _nccl_row(line: str) -> _Row | None:
    """The row of a line, None if it is none; what counts nothing has no sides."""
    cells = line.split()
    while cells and _STAMP.fullmatch(cells[-1]):
        cells.pop()
    size = whole(cells[0]) if len(cells) >= 7 else None
    if size is None or whole(cells[1]) is None or not re.fullmatch(r"[a-z]\w*", cells[2]):
        return None
    rest = cells[3:]
    if re.fullmatch(r"[a-z]\w*", rest[0]):
        rest = rest[1:]
    if len(rest) % 4 == 1:
        rest = rest[1:]
    if len(rest) not in (4, 8, 16):
        return None
    width = 4 if len(rest) < 16 else 8
    sides = []
    for at in range(0, len(rest), width):
        time, _, bus, wrong = rest[at : at + 4]
        if time == "N/A":
            continue
        if not all(_NUMBER.fullmatch(cell) for cell in (time, bus)):
            return None
        _check_results(wrong)
        digits = len(time.partition(".")[2])
        sides.append((float(time), float(bus), 0.5 * 10.0**-digits))
    return _Row(size, tuple(sides)) if sides else None


def _check_results(wrong: str | float | None) -> None:
    """ValueError for wrong results: a number of them, or in old layouts an error of sums."""
    if wrong is None or wrong == "N/A":
        return
    if isinstance(wrong, str) and not _NUMBER.fullmatch(wrong):
        raise ValueError(f"#wrong is {shown(wrong)}: it is a number")
    is_error = isinstance(wrong, str) and ("e" in wrong.lower() or "." in wrong)
    if float(wrong) > (0.01 if is_error else 0):
        raise ValueError(f"#wrong is {wrong}: {_WRONG}")


def _finished(
    run: BenchmarkRun, rows: list[_Row], collective: str | None, ranks: int | None
) -> BenchmarkRun:
    """The run of checked rows."""
    kind = run.collective or collective
    if kind is None:
        raise ValueError("it does not say of which collective it is: --collective does")
    if run.ranks and ranks is not None and run.ranks != ranks:
        raise ValueError(f"it is of {run.ranks} ranks, and {ranks} are asked for")
    if any(not time > 0 for row in rows for time, *_ in row.sides if row.size):
        raise ValueError("a time is not positive")
    rows = [row for row in rows if row.size >= LEAST_BYTES]
    if not rows:
        raise ValueError(f"no row of at least {LEAST_BYTES} bytes in it")
    number = run.ranks or ranks or _told_ranks(kind, rows)
    if number < 2:
        raise ValueError(f"{number} rank: a collective has at least 2")
    for row in rows:
        for time, bus, half in row.sides:
            _check_rate(kind, number, row.size, time, bus, half)
    points = tuple((row.size, min(time for time, *_ in row.sides)) for row in rows)
    return replace(run, collective=kind, ranks=number, rows=points)


def _check_rate(kind: str, ranks: int, size: int, time: float, bus: float, half: float) -> None:
    expected = factor(kind, ranks) * size / time / 1000
    if abs(bus - expected) > _BUSBW_ERROR * expected + 0.0051 + expected * half / time:
        raise ValueError(
            f"{size} B: busbw {bus:g} is not that of {kind} of {ranks} ranks in {time:g} us "
            f"({expected:.2f})"
        )


def _told_ranks(kind: str, rows: list[_Row]) -> int:
    """The ranks of which all rates can be; ValueError if none or several fit."""
    if kind in ("broadcast", "reduce", "sendrecv"):
        raise ValueError(f"the ranks of a {kind} cannot be told from its rates: --ranks says them")
    low, high, guesses = 2.0, float(MAX_TOLD_RANKS), list[float]()
    times = 2 if kind == "allreduce" else 1
    for row in rows:
        for time, bus, half in row.sides:
            near, far = (
                (bus + sign * 0.005) * (time + sign * half) * 1000 / row.size / times
                for sign in (-1, 1)
            )
            low = max(low, 1 / (1 - near) if near < 1 else MAX_TOLD_RANKS + 1)
            high = min(high, 1 / (1 - far) if far < 1 else high)
            share = bus * time * 1000 / row.size / times
            guesses.append(1 / (1 - share) if share < 1 else MAX_TOLD_RANKS + 1)
    first, last = ceil(low - 1e-9), floor(high + 1e-9)
    if first != last:
        near_by = round(median(guesses))
        raise ValueError(
            f"its ranks cannot be told from busbw and time (about {near_by}): --ranks says them"
        )
    return first


def _nccl_json(
    text: str, name: str, collective: str | None, ranks: int | None
) -> Iterator[BenchmarkRun]:
    record: Any = read_plain_text(text.encode(), name, is_json=True).value
    results = record.get("results") if isinstance(record, dict) else None
    if not isinstance(results, list):
        raise ValueError("this JSON has no list of results, as nccl-tests writes it")
    words = " ".join(map(str, record.get("args") or []))
    program = _PROGRAM.search(words)
    devices = [one for one in _records(record) if "hostname" in one and "rank" in one]
    version = record.get("nccl_version")
    number = version if isinstance(version, int) else 0
    run = BenchmarkRun(
        name,
        _collective_of(program[1]) if program else "",
        max((int(one["rank"]) + 1 for one in devices if isinstance(one["rank"], int)), default=0),
        len({str(one["hostname"]) for one in devices}),
        (),
        str(devices[0].get("device_info", "")) if devices else "",
        f"{number // 10000}.{number // 100 % 100}.{number % 100}" if number else "",
        str(record.get("start_time") or "")[:10],
    )
    rows: list[_Row] = []
    for result in results:
        row = _json_row(result)
        if rows and row.size <= rows[-1].size:
            yield _finished(run, rows, collective, ranks)
            rows = []
        rows.append(row)
    if rows:
        yield _finished(run, rows, collective, ranks)


def _records(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a JSON value that stand in lists of its configuration."""
    queue = [value]
    while queue:
        one = queue.pop()
        if isinstance(one, dict):
            yield one
            queue += [each for key, each in one.items() if key != "results"]
        elif isinstance(one, list):
            queue += one


def _json_row(result: Any) -> _Row:
    try:
        size = int(result["size"])
        sides = []
        for place in ("out_of_place", "in_place"):
            side = result.get(place)
            if side is not None:
                _check_results(side.get("nwrong"))
                time = side["time"] if "time" in side else side["cpu_time"]
                sides.append((float(time), float(side["bus_bw"]), 1e-6))
    except (KeyError, TypeError, AttributeError, OverflowError):
        raise ValueError("a result has a size, and a time and bus_bw of a side") from None
    if not sides or not 0 <= size < 10**18:
        raise ValueError("a result has a size, and a time and bus_bw of a side")
    return _Row(size, tuple(sides))


# OSU, Intel MPI, perftest, and tables in Markdown.

_BLOCKS: Final = ("allgather", "alltoall", "gather", "scatter", "reduce-scatter")
"""Collectives whose size is one block to programs of MPI."""


def _asked(run: BenchmarkRun, word: str, collective: str | None, ranks: int | None) -> BenchmarkRun:
    """The run with what was asked, and M of the whole buffer in place of a block."""
    plain = plain_collective(word) if word else collective
    if plain is None:
        raise ValueError("it does not say of which collective it is: --collective does")
    if run.ranks and ranks is not None and run.ranks != ranks:
        raise ValueError(f"it is of {run.ranks} ranks, and {ranks} are asked for")
    number = run.ranks or ranks or 0
    if number < 2:
        raise ValueError("it does not say of how many ranks it is: --ranks does")
    times = number if plain in _BLOCKS[:4] else 1
    rows = tuple((size * times, time) for size, time in run.rows if size > 0)
    if any(one[0] >= other[0] for one, other in pairwise(rows)):
        raise ValueError("the rows of several runs are mixed")
    return replace(run, collective=plain, ranks=number, rows=rows)


def _numbers(line: str) -> list[float]:
    cells = line.replace(",", " ").split()
    return [float(cell) for cell in cells] if all(map(_NUMBER.fullmatch, cells)) else []


def _osu(
    lines: Sequence[str], name: str, collective: str | None, ranks: int | None
) -> Iterator[BenchmarkRun]:
    word, rows = "", list[tuple[int, float]]()
    for line in lines:
        title = re.match(r"#\s*OSU MPI\S*\s+(.*?)\s+(?:Personalized Exchange )?Latency", line, re.I)
        if title:
            if rows:
                yield _asked(BenchmarkRun(name, "", 0, 0, tuple(rows)), word, collective, ranks)
                rows = []
            word = title[1].replace(" ", "-").lower()
        cells = _numbers(line)
        if len(cells) >= 2:
            rows.append((int(cells[0]), cells[1]))
    if rows:
        yield _asked(BenchmarkRun(name, "", 0, 0, tuple(rows)), word, collective, ranks)


def _imb(
    lines: Sequence[str], name: str, collective: str | None, ranks: int | None
) -> Iterator[BenchmarkRun]:
    word, number, rows = "", 0, list[tuple[int, float]]()
    for line in [*lines, "# Benchmarking end"]:
        title = re.match(r"#\s*Benchmarking\s+(\S+)", line)
        count = re.match(r"#\s*#processes\s*=\s*(\d{1,9})", line)
        if title or count:
            if rows:
                run = BenchmarkRun(name, "", number, 0, tuple(rows))
                yield _asked(run, word, collective, ranks)
            rows = []
            word, number = (title[1], number) if title else (word, int(count[1] if count else 0))
        cells = _numbers(line)
        if len(cells) >= 5:
            rows.append((int(cells[0]), cells[4]))


def _perftest(
    lines: Sequence[str], name: str, collective: str | None, ranks: int | None
) -> Iterator[BenchmarkRun]:
    """Rates and latencies between two ends; times of a latency are half a round trip already."""
    del collective, ranks
    kind, unit, column, rows = "", 0.0, 0, list[tuple[int, float]]()
    for line in lines:
        if "#bytes" in line:
            kind = BANDWIDTH if "average" in line else LATENCY
            unit = 1e9 / 8 if "Gb/sec" in line else _MIB
            named = re.split(r"\s{2,}|\s(?=#)", re.sub(r"(#\w+)\s(?=t_)", r"\1  ", line.strip()))
            column = next((at for at, text in enumerate(named) if "t_typical" in text), 3)
            continue
        cells = _numbers(line)
        if len(cells) < 4 or not kind:
            continue
        if kind == BANDWIDTH:
            if cells[3] <= 0 or cells[0] < 1:
                raise ValueError("a rate is not positive")
            rows.append((int(cells[0]), cells[0] / (cells[3] * unit) * 1e6))
        else:
            rows.append((int(cells[0]), cells[min(column, len(cells) - 1)]))
    if rows:
        yield BenchmarkRun(name, kind, 2, 2, tuple(rows))


def _table(
    lines: Sequence[str], name: str, collective: str | None, ranks: int | None
) -> Iterator[BenchmarkRun]:
    """Tables in Markdown of size, busbw and algbw; the time is from the larger number."""
    if collective is None or ranks is None:
        raise ValueError("a table of rates is of --collective and --ranks: say both")
    names: list[str] = []
    rows: dict[int, float] = {}
    for line in lines:
        cells = [cell.strip().strip("`*") for cell in line.strip().strip("|").split("|")]
        low = [cell.lower() for cell in cells]
        if any("busbw" in cell for cell in low):
            names = low
            continue
        if not names or len(cells) != len(names) or set("".join(cells)) <= set("-: "):
            continue
        found = _table_row(dict(zip(names, cells, strict=True)), factor(collective, ranks))
        if found is not None:
            rows[found[0]] = min(found[1], rows.get(found[0], found[1]))
    if rows:
        yield BenchmarkRun(name, collective, ranks, 0, tuple(sorted(rows.items())))


def _table_row(cells: dict[str, str], share: float) -> tuple[int, float] | None:
    from ocs_codesign.core.quantities import parse_size

    size, rates = 0, dict[str, float]()
    for title, cell in cells.items():
        number = _NUMBER.match(cell)
        if "size" in title or title in ("bytes", "message", "b"):
            text = cell.replace(" ", "")
            told = whole(text)
            size = int(parse_size(text)) if told is None else told
        elif number and ("busbw" in title or "algbw" in title):
            rates["busbw" if "busbw" in title else "algbw"] = float(number[0])
    if size < LEAST_BYTES or not rates:
        return None
    if min(rates.values()) <= 0:
        raise ValueError("a rate is not positive")
    times = {
        kind: (share if kind == "busbw" else 1) * size / rate / 1000 for kind, rate in rates.items()
    }
    if len(times) == 2 and abs(times["busbw"] / times["algbw"] - 1) > 2 * _BUSBW_ERROR:
        raise ValueError(f"{size} B: busbw and algbw are not of this collective and these ranks")
    return size, times[max(rates, key=lambda kind: rates[kind])]


_READERS: Final = {
    "nccl-tests": _nccl,
    "osu": _osu,
    "imb": _imb,
    "perftest": _perftest,
    "table": _table,
}
