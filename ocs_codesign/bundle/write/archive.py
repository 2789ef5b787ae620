"""A bundle as one file: what can be sent, and opened where no directory can be chosen."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from ocs_codesign.bundle.write.bundle import MANIFEST
from ocs_codesign.files.atomic import write_files

if TYPE_CHECKING:
    from collections.abc import Iterable

_EPOCH = (1980, 1, 1, 0, 0, 0)
_STORED = (".npz",)


def write_archive(directory: str | Path, files: Iterable[str], path: str | Path) -> int:
    """Write the ``files`` of a bundle's directory and its manifest as a zip; its size in bytes.

    In it they are in a folder of the directory's name, in order, without dates: the same bundle
    gives the same bytes. The zip appears whole or not at all. Raises OSError if a file cannot be
    read, or the zip not be written.
    """
    source, content = Path(directory), io.BytesIO()
    folder = source.resolve().name
    with zipfile.ZipFile(content, "w") as archive:
        for name in sorted({MANIFEST, *files}):
            member = zipfile.ZipInfo(f"{folder}/{name}", _EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            if name.endswith(_STORED):
                member.compress_type = zipfile.ZIP_STORED
            member.external_attr = 0o644 << 16
            archive.writestr(member, (source / name).read_bytes())
    write_files({Path(path): content.getvalue()})
    return content.tell()
