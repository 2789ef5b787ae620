"""The model of a job file, whatever the file says of machine and processor."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ocs_codesign.files.broken_rules import file_error
from ocs_codesign.files.limited import read_limited
from ocs_codesign.formats.jobs.job_files import MAX_JOB_BYTES, job_part
from ocs_codesign.formats.jobs.model_parts import model_of
from ocs_codesign.workload.codesign.divisions import SearchSpace, TrainedModel
from ocs_codesign.workload.models.parallel import Parallel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ocs_codesign.files.plain_text import PlainText


def load_training(path: str | Path) -> TrainedModel:
    """The model in a job file, and how the file divides it, if it does.

    Raises OSError if the file cannot be read, and ValueError with the file, the line (of YAML), the
    path in it, the value and the rule for anything else, such as a file without a model.
    """
    path = Path(path)
    data = read_limited(path, MAX_JOB_BYTES)
    return parse_training(data, str(path), is_json=path.suffix.lower() == ".json")


def parse_training(data: bytes, name: str, *, is_json: bool = False) -> TrainedModel:
    """The model in the content of a job file called ``name``; ValueError as in ``load_training``.

    >>> parse_training(b"name: j\\nranks: 4\\n", "j.yaml")
    Traceback (most recent call last):
    ValueError: j.yaml, line 1: the job has no model: only models can be divided in other ways
    """
    plain, part = job_part(data, name, is_json=is_json)
    if part.model is None:
        rule = " has no model: only models can be divided in other ways"
        raise file_error(name, plain, (), rule, "the job")
    with rules_at(name, plain, "model"):
        trained = TrainedModel(part.name, model_of(part.model))
    if part.search is not None:
        space = SearchSpace(tuple(part.search.zero), tuple(part.search.chunks))
        trained = replace(trained, search=space)
    if part.parallel is None:
        return trained
    with rules_at(name, plain, "parallel"):
        given = Parallel(**part.parallel.model_dump())
        trained.check(given)
    return replace(trained, given=given)


@contextmanager
def rules_at(name: str, plain: PlainText, key: str) -> Iterator[None]:
    """ValueError inside becomes one of the file, with the line of a key."""
    try:
        yield
    except ValueError as error:
        raise file_error(name, plain, (key,), f": {error}", "the file") from None
