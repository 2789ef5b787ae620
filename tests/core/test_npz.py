"""Archives from strangers: whatever is in them is refused with a reason or read, never trusted."""

from __future__ import annotations

import io
import re
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_design import SMALL, packed

from ocs_codesign.core.files import npz
from ocs_codesign.schedules.design import build
from ocs_codesign.schedules.files.archive import read_archive, write_schedule
from ocs_codesign.verification.schedules import verify

# Archives that numpy would not write.


def members(schedule=SMALL.schedule) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(packed(schedule))) as file:
        return {name: file.read(name) for name in file.namelist()}


def npy(shape: str, descr: str = "'<i4'", data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + data


def zipped(contents, compression=zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        for name, data in contents:
            file.writestr(name, data)
    return out.getvalue()


HOSTILE = {
    "pickled objects": npy("(1,)", "'|O'", b"cos\nsystem\n(S'true'\ntR."),
    "a huge shape": npy("(1000000000000,)"),
    "a negative shape": npy("(-3,)"),
    "too many dimensions": npy("(" + "1," * 80 + ")"),
    "a shape of text": npy("('a',)"),
    "an expression": npy("__import__('os').getpid()"),
    "no type": npy("(3,)", "None"),
    "deep nesting": npy("(" * 500 + ")" * 500),
    "a long header": npy("(3,)" + " " * 30000),
    "a future version": npy("(3,)", version=b"\x09\x00"),
    "a version 2 header": npy("(3,)", version=b"\x02\x00"),
    "no magic": b"MZ\x90\x00 not an array",
    "nothing": b"",
    "a null byte": npy("(3,)").replace(b"descr", b"de\x00cr"),
    "more data than declared": npy("(1,)", data=b"\x00" * 8),
    "less data than declared": npy("(3,)", data=b"\x00" * 8),
    "a Python 2 header": npy("(3L,)", data=b"\x00" * 12),
}


@pytest.mark.parametrize("name", ["root", "num_chunks", "collective"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_arrays(tmp_path, kind, name):
    contents = {**members(), f"{name}.npy": HOSTILE[kind]}
    path = tmp_path / "s.npz"
    path.write_bytes(zipped(contents.items()))
    with pytest.raises(ValueError, match=f"s.npz: the array {name}"):
        read_archive(path)


def test_duplicated_members(tmp_path):
    path = tmp_path / "s.npz"
    with pytest.warns(UserWarning, match="Duplicate name"):
        path.write_bytes(zipped([*members().items(), *list(members().items())[:1]]))
    with pytest.raises(ValueError, match="the array tail is in the archive twice"):
        read_archive(path)


@pytest.mark.parametrize("name", ["../tail.npy", "/etc/passwd", "tail", "TAIL.npy", "x" * 60000])
def test_foreign_members(tmp_path, name):
    path = tmp_path / "s.npz"
    path.write_bytes(zipped([*members().items(), (name, b"")]))
    with pytest.raises(ValueError, match="is not an array of a schedule"):
        read_archive(path)


def test_other_compressions(tmp_path):
    path = tmp_path / "s.npz"
    path.write_bytes(zipped(members().items(), zipfile.ZIP_BZIP2))
    with pytest.raises(ValueError, match="neither stored nor deflated"):
        read_archive(path)
    path.write_bytes(zipped(members().items(), zipfile.ZIP_STORED))
    assert read_archive(path).schedule == SMALL.schedule


def _with_declared_size(data: bytes, name: bytes, size: int) -> bytes:
    """The archive with another uncompressed size of a member in its central directory."""
    at = data.rindex(name) - 46
    assert data[at : at + 4] == b"PK\x01\x02"
    return data[: at + 24] + size.to_bytes(4, "little") + data[at + 28 :]


@pytest.mark.parametrize("size", [0, 1, 200, 2**20, 2**32 - 2])
def test_lies_in_the_directory(tmp_path, size):
    path = tmp_path / "s.npz"
    path.write_bytes(_with_declared_size(packed(SMALL.schedule), b"root.npy", size))
    with pytest.raises(ValueError, match=r"s\.npz"):
        read_archive(path)


def test_sizes_add_up_to_a_limit(tmp_path, monkeypatch):
    path = tmp_path / "s.npz"
    path.write_bytes(packed(SMALL.schedule))
    monkeypatch.setattr(npz, "MAX_CONTENT_BYTES", 1000)
    with pytest.raises(ValueError, match="at most 1,000 are read"):
        read_archive(path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    zeros = npy("(15000000,)", data=b"\x00" * 60_000_000)
    path = tmp_path / "s.npz"
    path.write_bytes(zipped({**members(), "root.npy": zeros}.items()))
    with pytest.raises(ValueError, match="lo has 30 entries, but root has 15000000"):
        read_archive(path)


def test_a_huge_directory_is_refused(tmp_path):
    path = tmp_path / "s.npz"
    path.write_bytes(zipped((f"{i:0200}", b"") for i in range(8000)))
    with pytest.raises(ValueError, match="directory is too large"):
        read_archive(path)


@pytest.mark.parametrize("keep", [0, 1, 4, 22, 100, 1000, -1, -22, -23, -200])
def test_truncated_archives(tmp_path, keep):
    path = tmp_path / "s.npz"
    path.write_bytes(packed(SMALL.schedule)[:keep])
    with pytest.raises(ValueError, match=r"s\.npz"):
        read_archive(path)


def test_encrypted_members_are_refused(tmp_path):
    data = bytearray(packed(SMALL.schedule))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    path = tmp_path / "s.npz"
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match="encrypted"):
        read_archive(path)


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4),
    st.booleans(),
)
def test_mutated_archives_are_read_or_refused(tmp_path_factory, changes, stored):
    data = packed(SMALL.schedule)
    data = bytearray(zipped(members().items(), zipfile.ZIP_STORED) if stored else data)
    for at, value in changes:
        data[at % len(data)] = value
    path = tmp_path_factory.getbasetemp() / "mutated.npz"
    path.write_bytes(bytes(data))
    try:
        schedule = read_archive(path).schedule
    except (ValueError, MemoryError) as error:
        assert str(error)  # noqa: PT017 - both outcomes are right
    else:
        verify(schedule)


@given(st.binary(max_size=300))
def test_random_bytes_are_refused(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "random.npz"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="not a readable npz archive"):
        read_archive(path)


def test_local_headers_that_lie_are_read_or_refused(tmp_path):
    """Every byte of every local header, which the directory repeats in other words."""
    file = io.BytesIO()
    write_schedule(file, build("Complete(3)").schedule)
    whole, path = file.getvalue(), tmp_path / "x.npz"
    heads = [found.start() for found in re.finditer(rb"PK\x03\x04", whole)]
    outcomes = set()
    for head in heads:
        for at in range(head + 4, head + 30):
            for byte in (0, 255, whole[at] ^ 1):
                path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
                try:
                    read_archive(path)
                    outcomes.add("read")
                except ValueError:
                    outcomes.add("refused")
    assert outcomes == {"read", "refused"}
