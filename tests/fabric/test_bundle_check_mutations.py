"""No seeded damage to a bundle is missed, although its checksums are made right again."""

from __future__ import annotations

import io
import json
import random

import numpy as np
import pytest
from bundle_check_samples import (
    KINDS,
    MANIFEST,
    checked,
    json_bytes,
    sample,
    sealed,
    table_bytes,
    table_of,
)

NUM_EACH = 2
FREE_TEXT = {"source"}
"""Columns that only say where a number is from."""


def other_value(rng, text, column):
    """Another value of the column if there is one, else a text that is nearly the same."""
    choices = sorted(set(column) - {text})
    if choices and rng.random() < 0.7:
        return rng.choice(choices)
    return str(int(text) + 1) if text.isdigit() else text + rng.choice(("1", "B", " ", "-"))


def some_table(rng, files, least=1):
    paths = [path for path in sorted(files) if path.endswith(".csv")]
    rng.shuffle(paths)
    for path in paths:
        rows = table_of(files[path])
        if len(rows) >= least:
            return path, rows
    raise AssertionError("a bundle has tables")


def change_cell(rng, files):
    path, rows = some_table(rng, files)
    row = rng.choice(rows)
    column = rng.choice(sorted(set(row) - FREE_TEXT))
    row[column] = other_value(rng, row[column], [one[column] for one in rows])
    return {**files, path: table_bytes(rows, files[path])}


def swap_cells(rng, files):
    """Two rows exchange what they have in a column: swapped strands, ports, hosts, ranks.

    Not if the table then has the rows that it had, in another order.
    """
    while True:
        path, rows = some_table(rng, files, 2)
        before = sorted(map(str, rows))
        one, other = rng.sample(rows, 2)
        column = rng.choice(sorted(set(one) - FREE_TEXT))
        one[column], other[column] = other[column], one[column]
        if sorted(map(str, rows)) != before:
            return {**files, path: table_bytes(rows, files[path])}


def delete_row(rng, files):
    path, rows = some_table(rng, files)
    del rows[rng.randrange(len(rows))]
    return {**files, path: table_bytes(rows, files[path])}


def repeat_row(rng, files):
    path, rows = some_table(rng, files)
    rows.insert(rng.randrange(len(rows) + 1), rng.choice(rows))
    return {**files, path: table_bytes(rows, files[path])}


FIELDS = {
    "cross_connects/": ("OCS_PORT", "OCS_CROSS_CONNECT"),
    "graphs/": ("edges",),
    "plans/": ("from", "to", "cross_connects", "dead_time_s", "stages"),
    "design.json": ("cost", "nodes", "num_sends", "recipe"),
    MANIFEST: ("configurations",),
    "state.json": ("up", "failed", "spares_in_use"),
}
"""What is claimed in which JSON files."""


def altered(rng, value):
    """Nearly the same: somewhere inside another number or text."""
    if isinstance(value, dict):
        key = rng.choice(sorted(value))
        return {**value, key: altered(rng, value[key])}
    if isinstance(value, list):
        if not value:
            return ["1"]
        at = rng.randrange(len(value))
        return [*value[:at], altered(rng, value[at]), *value[at + 1 :]]
    return f"1{value}" if isinstance(value, str) else (value or 0) + 1


def change_json(rng, files):
    listed = [path for path in sorted(files) if path.endswith(".json")]
    patches = [path for path in listed if path.endswith(".patch.json")]
    if patches and rng.random() < 0.2:
        path = rng.choice(patches)
        return {**files, path: json_bytes(altered(rng, json.loads(files[path])))}
    listed = [path for path in listed if path not in patches]
    claims = {place: [path for path in listed if place in path] for place in sorted(FIELDS)}
    place = rng.choice([place for place, paths in claims.items() if paths])
    path, keys = rng.choice(claims[place]), FIELDS[place]
    value = json.loads(files[path])
    key = rng.choice([key for key in keys if value[key]])
    return {**files, path: json_bytes({**value, key: altered(rng, value[key])})}


def rewire(rng, files):
    """Two circuits exchange their ends in the table and in the CONFIG_DB, claims follow."""
    paths = [
        path
        for path in sorted(files)
        if path.startswith("cross_connects/") and path.endswith(".csv")
    ]
    rng.shuffle(paths)
    for path in paths:
        rows = table_of(files[path])
        if len(rows) < 2:
            continue
        one, other = rng.sample(rows, 2)
        for column in ("b_side", "to_host"):
            one[column], other[column] = other[column], one[column]
        for row in (one, other):
            row["id"] = f"{row['a_side']}-{row['b_side']}"
        tables = {path: table_bytes(rows, files[path])}
        database = path.removesuffix(".csv") + ".config_db.json"
        if database in files:
            value = json.loads(files[database])
            sides = {row["id"]: {key: row[key] for key in ("a_side", "b_side")} for row in rows}
            tables[database] = json_bytes({**value, "OCS_CROSS_CONNECT": sides})
        return {**files, **tables}
    raise AssertionError("a bundle has switches with two circuits")


def change_graph(rng, files):
    path = rng.choice([path for path in sorted(files) if path.endswith(".graphml")])
    lines = files[path].decode().splitlines()
    del lines[rng.choice([at for at, line in enumerate(lines) if "<edge " in line])]
    return {**files, path: "\n".join(lines).encode()}


def change_schedule(rng, files):
    """A send crosses another link, carries another chunk, or is left out."""
    path = rng.choice([path for path in sorted(files) if path.endswith(".npz")])
    with np.load(io.BytesIO(files[path])) as archive:
        arrays = {name: archive[name].copy() for name in archive.files}
    at = rng.randrange(len(arrays["step"]))
    name = rng.choice(("link", "root", "step", "tail"))
    if name == "step":
        arrays[name][at] = arrays[name].max() + 1
    elif name == "tail":
        at = rng.randrange(len(arrays[name]))
        arrays[name][at] = (arrays[name][at] + 1) % 8
    else:
        most = int(arrays[name].max()) + 1
        arrays[name][at] = (arrays[name][at] + 1) % most
    content = io.BytesIO()
    np.savez(content, **arrays)
    return {**files, path: content.getvalue()}


def lose_file(rng, files):
    lost = rng.choice(sorted(set(files) - {MANIFEST}))
    return {path: data for path, data in files.items() if path != lost}


def add_file(rng, files):
    folder = rng.choice(("", "plans/", "netbox/", "cross_connects/", "graphs/"))
    return {**files, f"{folder}extra.csv": b"a,b\n"}


def damage_file(rng, files):
    """A file is cut or filled with other bytes; only what is for people could say anything."""
    told = {path for path in files if path.endswith((".md", ".html"))}
    path = rng.choice(sorted(set(files) - told - {MANIFEST}))
    half = files[path][: len(files[path]) // 2]
    return {**files, path: rng.choice((b"", half[:-3], b"\xff\xfe\0" + half))}


SEALED = (
    *(change_cell, swap_cells, delete_row, repeat_row, change_json, rewire, change_graph),
    *(change_schedule, lose_file, add_file, damage_file),
)


def change_byte(rng, files):
    path = rng.choice(sorted(set(files) - {MANIFEST}))
    data = bytearray(files[path])
    data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    return {**files, path: bytes(data)}


UNSEALED = (change_byte, lose_file, add_file)


@pytest.mark.parametrize("kind", KINDS)
def test_bundles_that_were_not_touched_are_valid(kind):
    verdict = checked(sample(kind))
    assert verdict.findings == ()
    assert verdict.ok
    assert len(verdict.configurations) == 2


def missed(kind):
    """The damages, each with checksums made right again, of which nothing is found."""
    found = []
    for mutate in SEALED:
        for seed in range(NUM_EACH * (5 if mutate is change_json else 1)):
            files = mutate(random.Random(f"{kind} {mutate.__name__} {seed}"), sample(kind))
            assert files != sample(kind)
            if checked(sealed(files)).ok:
                found.append((mutate.__name__, seed))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_is_missed_though_checksums_are_right(kind):
    assert missed(kind) == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_damage_is_missed_by_checksums(kind):
    for mutate in UNSEALED:
        for seed in range(NUM_EACH):
            files = mutate(random.Random(f"{kind} {mutate.__name__} {seed}"), sample(kind))
            changed = {path for path in files if files[path] != sample(kind).get(path)}
            changed |= set(sample(kind)) - set(files)
            found = {finding.file for finding in checked(files).findings}
            assert changed <= found, (mutate.__name__, seed)
