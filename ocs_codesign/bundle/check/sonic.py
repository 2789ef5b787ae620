"""What SONiC is told in a bundle: patches and commands do what the batches say, nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ocs_codesign.bundle.check.circuits import has_database
from ocs_codesign.files.naming import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ocs_codesign.bundle.check.files import BundleFiles, Row
    from ocs_codesign.bundle.check.wiring import Plant

TABLE = "/OCS_CROSS_CONNECT"
DELETE, CREATE = "delete", "create"


def check_stages(
    files: BundleFiles, plant: Plant, folder: str, rows: Sequence[Row], held: Iterable[str]
) -> None:
    """Every file of a folder is that of a stage and switch of the rows, and none is missing.

    ``held`` are the cross-connects before the first row, as in ``switch:1A-2B``.
    """
    expected = dict(_expected(plant, rows, set(held)))
    there = {path for path in files.sizes if path.startswith(f"{folder}/")}
    for path in sorted(there - {f"{folder}/{name}" for name in expected}):
        files.wrong(path, "no stage changes this switch so")
    for name, content in expected.items():
        path = f"{folder}/{name}"
        if isinstance(content, str):
            found = files.read(path)
            if found is not None and found != content.encode():
                files.wrong(path, f"the commands must be {shown(content)}")
            continue
        value = files.json(path)
        if value is not None and value != content:
            files.wrong(path, f"by the batches the patch is {shown(json.dumps(content))}")


def _expected(
    plant: Plant, rows: Sequence[Row], held: set[str]
) -> Iterator[tuple[str, str | list[dict[str, Any]]]]:
    """The name and content of every file: of patches their value, of commands their text."""
    batches: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row in rows:
        switch = plant.switches.get(row["switch"])
        if switch is not None and has_database(switch) and row["action"] in (DELETE, CREATE):
            batch = batches.setdefault((row["stage"], switch.name), {DELETE: [], CREATE: []})
            batch[row["action"]].append(row["id"])
    up: dict[str, set[str]] = {}
    for one in held:
        up.setdefault(one.rpartition(":")[0], set()).add(one.rpartition(":")[2])
    for (stage, name), batch in batches.items():
        place, mine = f"stage-{stage}.{name}", up.get(name, set())
        left = up[name] = (mine - set(batch[DELETE])) | set(batch[CREATE])
        made = {one: _sides(one) for one in batch[CREATE]}
        if not left:
            patch: list[dict[str, Any]] = [{"op": "remove", "path": TABLE}]
        elif not mine:
            patch = [{"op": "add", "path": TABLE, "value": made}]
        else:
            patch = [{"op": "remove", "path": f"{TABLE}/{one}"} for one in batch[DELETE]]
            patch += [{"op": "add", "path": f"{TABLE}/{k}", "value": v} for k, v in made.items()]
        yield f"{place}.patch.json", patch
        yield f"{place}.sh", _lines(batch[DELETE], batch[CREATE])
        yield f"{place}.rollback.sh", _lines(batch[CREATE], batch[DELETE])


def _sides(name: str) -> dict[str, str]:
    a_side, _, b_side = name.partition("-")
    return {"a_side": a_side, "b_side": b_side}


def _lines(gone: Sequence[str], come: Sequence[str]) -> str:
    delete = f"config ocs cross-connect delete {','.join(gone)}\n" if gone else ""
    return delete + (f"config ocs cross-connect add {','.join(come)} safe\n" if come else "")
