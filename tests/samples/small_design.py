"""A small design, and the bytes and arrays of schedules on disk."""

from __future__ import annotations

import io

import numpy as np

from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.design import build
from ocs_codesign.schedules.files.archive import write_schedule

SMALL = build(parse("Line(Complete(3))"))


def packed(schedule) -> bytes:
    content = io.BytesIO()
    write_schedule(content, schedule)
    return content.getvalue()


def arrays_of(schedule) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(packed(schedule)), allow_pickle=False) as archive:
        return dict(archive)
