"""Where a bundle is put: in a directory, in a zip, or both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, final

from ocs_codesign.bundle.write.archive import write_archive

if TYPE_CHECKING:
    from collections.abc import Callable


@final
@dataclass(frozen=True, slots=True)
class BundlePlace:
    """A directory, a zip, or both; without a directory ``folder`` is that in the zip.

    >>> BundlePlace(None, "lab.zip").folder, str(BundlePlace("bundle", "lab.zip"))
    ('lab', 'bundle')
    """

    directory: str | None
    archive: str | None = None
    folder: str = ""

    def __post_init__(self) -> None:
        if self.directory is None and self.archive is None:
            raise ValueError("a bundle is put in a directory or in a zip: neither is given")
        if not self.folder:
            object.__setattr__(self, "folder", Path(self.archive or "").stem)

    def __str__(self) -> str:
        return self.directory or self.archive or ""

    def write(self, write_bundle: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
        """What ``write_bundle`` says of the directory that it writes: the bundle's manifest.

        Raises ValueError and OSError as it does and ``write_archive`` does.
        """
        if self.directory is not None:
            return self._archived(self.directory, write_bundle)
        with TemporaryDirectory(prefix="ocs-codesign-") as room:
            return self._archived(str(Path(room) / self.folder), write_bundle)

    def _archived(
        self, directory: str, write_bundle: Callable[[str], dict[str, Any]]
    ) -> dict[str, Any]:
        manifest = write_bundle(directory)
        if self.archive is not None:
            write_archive(directory, manifest["files"], self.archive)
        return manifest
