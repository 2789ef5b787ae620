"""Zips of strangers: what is unpacked, what is refused, and that nothing is left behind."""

from __future__ import annotations

import io
import os
import random
import re
import stat
import struct
import zipfile

import pytest

from ocs_codesign.core.files import archives
from ocs_codesign.core.files.archives import as_directory, only_folder

LINK, PIPE = stat.S_IFLNK | 0o777, stat.S_IFIFO | 0o600


def zipped(path, entries, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return path


def entry(name, mode=0o644 | stat.S_IFREG):
    member = zipfile.ZipInfo("x")
    member.filename = member.orig_filename = name
    member.external_attr = mode << 16
    return member


def content_of(path):
    with as_directory(path, "a bundle") as place:
        return {
            one.relative_to(place).as_posix(): one.read_bytes()
            for one in sorted(place.rglob("*"))
            if one.is_file()
        }


def refused(path, rule):
    before = set(os.listdir(path.parent))
    with pytest.raises(ValueError, match=rule) as caught, as_directory(path, "a bundle"):
        pytest.fail("it was unpacked")
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert set(os.listdir(path.parent)) == before


@pytest.fixture(autouse=True)
def room(tmp_path, monkeypatch):
    """Where things are unpacked is here, and empty in the end."""
    place = tmp_path / "room"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    yield place
    assert list(place.iterdir()) == []


def test_the_only_folder_is_the_directory(tmp_path):
    files = {"a.txt": b"a", "b/c.txt": b"c" * 5000}
    inner = zipped(tmp_path / "one.zip", [(f"lab/{name}", data) for name, data in files.items()])
    outer = zipped(tmp_path / "all.zip", files.items())
    stored = zipped(tmp_path / "stored.zip", files.items(), zipfile.ZIP_STORED)
    assert content_of(inner) == content_of(outer) == content_of(stored) == files
    assert (only_folder(inner, "a bundle"), only_folder(outer, "a bundle")) == ("lab", "")
    with_folders = zipped(tmp_path / "f.zip", [("lab/", b""), ("lab/b/", b""), ("lab/a", b"1")])
    assert content_of(with_folders) == {"a": b"1"}
    assert content_of(zipped(tmp_path / "f", [("alone", b"1")])) == {"alone": b"1"}


def test_a_directory_is_itself(tmp_path):
    with as_directory(tmp_path, "a bundle") as place:
        assert place == tmp_path
    with as_directory(tmp_path / "none", "a bundle") as place:
        assert place == tmp_path / "none"


def test_errors_inside_name_the_zip(tmp_path):
    path = zipped(tmp_path / "one.zip", [("lab/a", b"1")])
    with pytest.raises(FileNotFoundError) as missing, as_directory(path, "x") as place:
        (place / "b").read_bytes()
    assert missing.value.filename == f"{path}/b"
    with (
        pytest.raises(ValueError, match=re.escape(f"{path}/a: bad")),
        as_directory(path, "x") as at,
    ):
        raise ValueError(f"{at / 'a'}: bad")
    with pytest.raises(ValueError, match=r"^mine$"), as_directory(path, "x"):
        raise ValueError("mine")
    with pytest.raises(KeyError), as_directory(path, "x"):
        raise KeyError


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("../evil", r"'\.\./evil' leads out of the archive"),
        ("lab/../../evil", "leads out of the archive"),
        ("..", "leads out of the archive"),
        ("/etc/evil", "is a place outside of the archive: names are relative"),
        ("//evil", "is a place outside of the archive"),
        ("C:/evil", "is a place outside of the archive"),
        ("\\evil", "is a place outside of the archive"),
        ("lab\\..\\evil", "is not the name of a file"),
        ("lab//evil", "is not the name of a file"),
        ("lab/./evil", "is not the name of a file"),
        ("lab/e\nvil", "is not the name of a file"),
        ("lab/e\x1bvil", "is not the name of a file"),
        ("", "is not the name of a file"),
        ("a/" * 40 + "b", "is too long or too deep a name"),
        ("a" * 5000, "is too long or too deep a name"),
    ],
)
def test_names_that_are_not_plain(name, rule, tmp_path):
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("lab/good", b"1")
        archive.writestr(entry(name), b"2")
    refused(path, rule)
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize("mode", [LINK, PIPE, stat.S_IFCHR | 0o600])
def test_links_and_special_files(mode, tmp_path):
    path = zipped(tmp_path / "one.zip", [("lab/a", b"1"), (entry("lab/b", mode), b"/etc/passwd")])
    refused(path, "'lab/b' is a link or a special file, which is not read")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_places_that_are_taken(tmp_path):
    refused(
        zipped(tmp_path / "twice.zip", [("lab/a", b"1"), ("lab/a", b"2")]),
        "'lab/a' is in the archive twice",
    )
    refused(
        zipped(tmp_path / "under.zip", [("lab/a", b"1"), ("lab/a/b", b"2")]),
        "two entries of it are in one place",
    )
    refused(
        zipped(tmp_path / "over.zip", [("lab/a/b", b"2"), ("lab/a", b"1")]),
        "two entries of it are in one place",
    )


def test_limits(tmp_path, monkeypatch):
    path = zipped(tmp_path / "one.zip", [("lab/a", bytes(3000)), ("lab/b", b"1")])
    monkeypatch.setattr(archives, "MAX_CONTENT_BYTES", 3001)
    assert len(content_of(path)) == 2
    monkeypatch.setattr(archives, "MAX_CONTENT_BYTES", 3000)
    refused(path, "it unpacks to more than the 3,000 bytes that are read")
    monkeypatch.undo()
    monkeypatch.setattr(archives, "MAX_ENTRIES", 1)
    refused(path, "2 entries: at most 1 are read")
    monkeypatch.undo()
    monkeypatch.setattr(archives, "_DIRECTORY_BYTES", 100)
    refused(path, "the archive's directory is too large for a bundle")


def forged(path, field, value):
    """The zip with another number in the entry of its only file in the directory."""
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02") + field
    size = 2 if value < 2**16 and field in {8, 10} else 4
    data[at : at + size] = struct.pack("<H" if size == 2 else "<I", value)
    path.write_bytes(data)
    return path


def test_an_entry_that_declares_more_than_it_can_hold(tmp_path):
    path = zipped(tmp_path / "one.zip", [("a", b"1" * 100)])
    refused(forged(path, 24, 2**31), "'a' declares more bytes than it can hold")


def test_an_entry_that_holds_other_bytes_than_it_declares(tmp_path):
    more = forged(zipped(tmp_path / "more.zip", [("a", b"1" * 100)]), 24, 150)
    refused(more, "'a' is shorter than it declares")
    less = forged(zipped(tmp_path / "less.zip", [("a", b"1" * 100)]), 24, 50)
    refused(less, "a bundle is a directory or a zip: Bad CRC-32")


def test_entries_that_overlap(tmp_path):
    """Many names for the same packed bytes: how a small zip unpacks to a large one."""
    path = zipped(tmp_path / "one.zip", [("a", os.urandom(3000)), ("b", b"")])
    data = path.read_bytes()
    first, second = (found.start() for found in re.finditer(b"PK\x01\x02", data))
    again = bytearray(data)
    again[second + 16 : second + 28] = data[first + 16 : first + 28]  # checksum and sizes
    again[second + 42 : second + 46] = data[first + 42 : first + 46]  # where it begins
    path.write_bytes(again)
    refused(path, "its entries overlap: together they are larger than the file")


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [(8, 1, "'a' is encrypted"), (10, 12, "'a' is neither stored nor deflated")],
)
def test_exotic_entries(field, value, rule, tmp_path):
    refused(forged(zipped(tmp_path / "one.zip", [("a", b"1")]), field, value), rule)


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x05\x06", b"hello", bytes(4096)])
def test_what_is_no_zip(data, tmp_path):
    path = tmp_path / "one.zip"
    path.write_bytes(data)
    refused(path, "a bundle is a directory or a zip: ")


def test_no_pipes(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    refused(path, "this is no regular file: pipes and devices are not read")


def test_damaged_zips_are_read_or_refused(tmp_path):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("lab/a", "lab/b/c"):
            archive.writestr(name, os.urandom(50) + bytes(500))
    rng, path = random.Random(7), tmp_path / "one.zip"
    for _ in range(150):
        data = bytearray(whole.getvalue())
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
        try:
            content_of(path)
        except ValueError as error:
            assert str(error).startswith(f"{path}: ")  # noqa: PT017 - which errors, is drawn
