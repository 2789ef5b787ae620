"""The catalogue as one table: CSV, JSON or Parquet, for analysis elsewhere."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ocs_codesign.search.catalogue.store import Catalogue


def table_rows(catalogue: Catalogue) -> list[dict[str, Any]]:
    """One flat row an entry, in the order of the questions, with their provenance."""
    rows = []
    origins = {question: catalogue.provenance(question) for question in catalogue.questions()}
    for question, entry in catalogue.all_entries():
        origin = origins[question]
        rows.append(
            {
                "nodes": entry.num_nodes,
                "degree": entry.degree,
                "question": "bidirectional" if question.bidirectional else "any",
                "recipe": entry.recipe,
                "label": entry.label,
                "allgather_steps": entry.allgather.steps,
                "allgather_t_b": str(entry.allgather.t_b),
                "allgather_t_b_float": float(entry.allgather.t_b),
                "certificate": "" if entry.certificate is None else str(entry.certificate),
                "reduce_scatter_steps": entry.reduce_scatter.steps,
                "reduce_scatter_t_b": str(entry.reduce_scatter.t_b),
                "reduce_scatter_t_b_float": float(entry.reduce_scatter.t_b),
                "alltoall_t_b": "" if entry.alltoall is None else str(entry.alltoall),
                "alltoall_t_b_float": None if entry.alltoall is None else float(entry.alltoall),
                "bidirectional": entry.bidirectional,
                "reverse_symmetric": entry.reverse_symmetric,
                "schedule": entry.schedule,
                "measured": entry.measured,
                "command": "" if origin is None else origin.command,
                "version": "" if origin is None else origin.version,
                "seed": None if origin is None else origin.seed,
                "work": None if origin is None else origin.work,
                "improved": None if origin is None else origin.improved,
                "day": "" if origin is None else origin.day,
                "exchanged": None if origin is None else origin.exchanged,
            }
        )
    return rows


def table_bytes(rows: list[dict[str, Any]], kind: str) -> bytes:
    """The rows as ``csv``, ``json`` or ``parquet``; ValueError if the extra for that is missing."""
    if kind == "json":
        return (json.dumps(rows, indent=1, ensure_ascii=False) + "\n").encode()
    import pandas as pd

    table = pd.DataFrame(rows)
    if kind == "csv":
        return str(table.to_csv(index=False, lineterminator="\n")).encode()
    buffer = io.BytesIO()
    try:
        table.to_parquet(buffer, index=False)
    except ImportError:
        raise ValueError("writing Parquet needs the extra parquet: pip install pyarrow") from None
    return buffer.getvalue()
