"""A step in a job file, and steps that were measured: tables, and logs of training software.

A table has a row a step: columns are keys of the job's ``parallel``, of its ``step`` and ``batch``
and ``sequence`` of its model, where the row differs from the file, and what was measured. A log is
of the job as the file has it.
"""

from __future__ import annotations

import csv
import json
import re
from copy import deepcopy
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign.core.files.archives import read_limited
from ocs_codesign.core.files.plain_text import file_error, read_plain_text
from ocs_codesign.core.quantities import whole
from ocs_codesign.jobs.files.job_cluster_files import load_room
from ocs_codesign.jobs.files.job_files import (
    MAX_JOB_BYTES,
    MODEL_KINDS,
    ParallelPart,
    TransformerPart,
    job_part,
    rules_at,
    transformer_of,
)
from ocs_codesign.jobs.files.parts import StepPart
from ocs_codesign.jobs.training.constants import attention_kinds, software_named
from ocs_codesign.jobs.training.division import Division
from ocs_codesign.jobs.training.fitting import MeasuredStep
from ocs_codesign.jobs.training.layers import Method
from ocs_codesign.jobs.training.step import TrainedStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ocs_codesign.jobs.models.layer import Transformer


def load_step(path: str | Path) -> TrainedStep:
    """The step in a job file: a transformer with its division, one rank if it has none.

    Raises as ``load_training``.
    """
    path = Path(path)
    data = read_limited(path, MAX_JOB_BYTES)
    return parse_step(data, str(path), is_json=path.suffix.lower() == ".json")


def parse_step(data: bytes, name: str, *, is_json: bool = False) -> TrainedStep:
    """The step in the content of a job file called ``name``; ValueError as in ``load_step``.

    >>> parse_step(b"name: j\\nranks: 4\\n", "j.yaml")
    Traceback (most recent call last):
    ValueError: j.yaml, line 1: the job: a step on a cluster is one of a transformer
    """
    plain, part = job_part(data, name, is_json=is_json)
    if not isinstance(part.model, TransformerPart):
        rule = ": a step on a cluster is one of a transformer"
        raise file_error(name, plain, (), rule, "the job")
    with rules_at(name, plain, "model"):
        model = transformer_of(part.model)
    divided = part.parallel or ParallelPart.model_validate({})
    step = divided.step or StepPart.model_validate({})
    with rules_at(name, plain, "parallel"):
        software = software_named(step.software)
        if step.factors is not None:
            software = software.times(**step.factors.model_dump())
        method = Method(software, step.precision, step.attention)
        if step.attention not in (None, *attention_kinds()):
            raise ValueError(
                f"attention is {step.attention!r}: one of {', '.join(attention_kinds())}"
            )
        division = _division(divided, step, model)
        division.check(model)
    return TrainedStep(part.name, model, division, method)


def _division(divided: ParallelPart, step: StepPart, model: Transformer) -> Division:
    degrees = ("data", "tensor", "pipeline", "expert", "zero", "chunks")
    each = divided.data * divided.microbatches
    if step.microbatch is None and model.batch % each:
        raise ValueError(
            f"microbatches is {divided.microbatches}: batch, {model.batch}, is not divided by it "
            f"and {divided.data} data ranks"
        )
    return Division(
        **{name: getattr(divided, name) for name in degrees},
        context=step.context,
        expert_tensor=step.expert_tensor,
        microbatch=step.microbatch or model.batch // each,
        group=step.group,
        stages=None if step.stages is None else tuple(step.stages),
        recompute=step.recompute,
        gradient_bytes=step.gradient_bytes,
        schedule=step.schedule or divided.schedule.replace("interleaved", "1f1b"),
        recompute_layers=step.recompute_layers,
        offload=step.offload,
        replicas=step.replicas,
    )


# Steps that were measured.

MAX_MEASURED_BYTES = 64 * 2**20
MAX_ROWS = 1000
STEPS_OF_A_LOG = 10
"""The last of a log that count: earlier ones compile, and warm up."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NUMBER = r"\s*[:=]\s*([0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
_LINES = (
    (re.compile(r"train_step_timing in s" + _NUMBER), "seconds"),
    (re.compile(r"elapsed time per iteration \(ms\)" + _NUMBER), "milliseconds"),
    (re.compile(r"\bstep: .*\btps" + _NUMBER), "tokens_per_second_per_accelerator"),
)
"""Lines of NeMo, Megatron-LM and torchtitan, and what they say of a step."""
MEASURES = tuple(unit for _, unit in _LINES)
_MODEL_KEYS = ("batch", "sequence")


def measured_steps(job: str, cluster: str, measured: Sequence[str]) -> list[MeasuredStep]:
    """The steps in tables and logs, of the job in a file on the cluster in another.

    ``factors`` of the job file are left out: constants are fitted afresh. Raises OSError if a file
    cannot be read, and ValueError with the file, the line and the rule for anything else.
    """
    _, room = load_room(cluster)
    value = _without_factors(job)
    given = parse_step(_as_json(value), job, is_json=True)
    found = []
    for name in measured:
        data = read_limited(Path(name), MAX_MEASURED_BYTES)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError(f"{name}: it is no text in UTF-8") from None
        if Path(name).suffix.lower() in (".csv", ".tsv"):
            rows = _rows_of_table(text, name, value)
        else:
            rows = ((given, *number) for number in _numbers_of_log(text, name))
        for step, unit, number in rows:
            found.append(MeasuredStep(step, room, _seconds(step, unit, number)))
    return found


def with_factors(job: str, factors: dict[str, float]) -> bytes:
    """The job file with these factors of its software, as JSON or YAML by its name."""
    import yaml

    value = _without_factors(job)
    value["parallel"]["step"]["factors"] = {
        name: float(f"{factor:.4g}") for name, factor in factors.items()
    }
    if Path(job).suffix.lower() == ".json":
        return (json.dumps(value, indent=1) + "\n").encode()
    text: str = yaml.safe_dump(value, sort_keys=False)
    return text.encode()


def is_step_file(path: str) -> bool:
    """Whether a file is a job's by its name and what it has, not a log.

    >>> is_step_file("nccl.log")
    False
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        data = read_limited(Path(path), MAX_JOB_BYTES)
        return b'"model"' in data and b'"kind"' in data
    return suffix in (".yaml", ".yml")


def _without_factors(job: str) -> dict[str, Any]:
    """The content of a job file that was checked, without factors."""
    load_step(job)
    data = read_limited(Path(job), MAX_JOB_BYTES)
    plain = read_plain_text(data, job, is_json=Path(job).suffix.lower() == ".json")
    value: dict[str, Any] = deepcopy(plain.value)
    # A key without a value is a part of which all is left to its default.
    parallel = value["parallel"] = value.get("parallel") or {}
    parallel["step"] = {**(parallel.get("step") or {})}
    parallel["step"].pop("factors", None)
    return value


def _as_json(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode()


def _seconds(step: TrainedStep, unit: str, number: float) -> float:
    if unit == "milliseconds":
        return number / 1000
    if unit == "seconds":
        return number
    return step.model.batch * step.model.sequence / number / step.division.num_ranks


def _numbers_of_log(text: str, name: str) -> list[tuple[str, float]]:
    """What the last lines of a log say; the first is left out where there are more.

    >>> _numbers_of_log("step:  1  tps: 70\\nstep:  2  loss: 7.1  tps: 7,012  mfu: 4%", "log")
    [('tokens_per_second_per_accelerator', 7012.0)]
    """
    found: list[tuple[str, float]] = []
    for line in _COLOURS.sub("", text).splitlines():
        for pattern, unit in _LINES:
            match = pattern.search(line[:4096])
            if match is not None:
                found.append((unit, _positive(match[1].replace(",", ""), unit, name)))
                break
    if not found:
        raise ValueError(
            f"{name}: no line has a step of NeMo (train_step_timing in s), of Megatron-LM (elapsed "
            "time per iteration) or of torchtitan (step: ... tps:); a table is a .csv"
        )
    return found[1:][-STEPS_OF_A_LOG:] or found


def _rows_of_table(
    text: str, name: str, value: dict[str, Any]
) -> Iterator[tuple[TrainedStep, str, float]]:
    """The steps of a table, each as its own job."""
    delimiter = "\t" if name.lower().endswith(".tsv") else ","
    rows = csv.reader(StringIO(text), delimiter=delimiter)
    columns = [column.strip() for column in next(rows, [])]
    every = dict.fromkeys((*ParallelPart.model_fields, *StepPart.model_fields))
    keys = [key for key in every if key not in ("step", "factors", "stages", *_MODEL_KEYS)]
    keys += [*_MODEL_KEYS, *MEASURES]
    for column in columns:
        if column not in keys or columns.count(column) > 1:
            raise ValueError(f"{name}: column {column[:80]!r} is not once one of {', '.join(keys)}")
    units = [unit for unit in MEASURES if unit in columns]
    if len(units) != 1:
        raise ValueError(f"{name}: it has one column of {', '.join(MEASURES)}, not {len(units)}")
    for number, row in enumerate(rows, 1):
        if number > MAX_ROWS:
            raise ValueError(f"{name}: at most {MAX_ROWS} rows are read")
        if not any(cell.strip() for cell in row):
            continue
        place = f"{name}, line {rows.line_num}"
        if len(row) != len(columns):
            raise ValueError(f"{place}: {len(row)} cells in {len(columns)} columns")
        cells = dict(zip(columns, (cell.strip() for cell in row), strict=True))
        measured = _positive(cells.pop(units[0]), units[0], place)
        job = _changed(value, cells)
        yield parse_step(_as_json(job), place, is_json=True), units[0], measured


def _changed(value: dict[str, Any], cells: dict[str, str]) -> dict[str, Any]:
    """The content of a job file with the cells of a row in their places; empty ones change none."""
    job = deepcopy(value)
    parallel = job["parallel"]
    for key, cell in cells.items():
        if not cell:
            continue
        place = parallel
        if key in StepPart.model_fields:
            place = parallel["step"]
        elif key in _MODEL_KEYS:
            place = job["model"]
        number = whole(cell)
        place[key] = cell if number is None else number
    return job


def _positive(cell: str, unit: str, place: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise ValueError(f"{place}: {unit} is {cell[:80]!r}: it is a positive number")
    return number


def is_of_transformer(path: str | Path) -> bool:
    """Whether what is there may be a job file of a transformer; what is wrong is said on reading.

    A directory, or a trace of others, is none.
    """
    path = Path(path)
    if path.is_dir() or path.suffix.lower() not in (".yaml", ".yml", ".json"):
        return False
    data = read_limited(path, MAX_JOB_BYTES)
    value = read_plain_text(data, str(path), is_json=path.suffix.lower() == ".json").value
    model = value.get("model") if isinstance(value, dict) else None
    return isinstance(model, dict) and model.get("kind") == MODEL_KINDS[0]
