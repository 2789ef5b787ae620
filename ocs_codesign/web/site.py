"""The explorer as a directory: pages that open from disk, and the data that they load."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocs_codesign import __version__
from ocs_codesign.files.atomic import check_replaceable, whole_directory
from ocs_codesign.files.limited import read_limited
from ocs_codesign.web.payloads import script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from importlib.resources.abc import Traversable

FORMAT, LISTING, PAGE = "ocs-codesign explorer", "site.json", "index.html"
MAX_LISTING_BYTES = 16 * 2**20


def check_site_directory(directory: str | Path) -> None:
    """ValueError or OSError if a site must not be written there: only sites are replaced.

    The directory must be new, empty, or hold a site and nothing else.
    """
    check_replaceable(
        Path(directory).resolve(),
        lambda earlier: _files_in(earlier) - _listed_files(earlier),
        "a site is only written to a new or empty directory or over an earlier site",
        swapped=True,
    )


def write_site(
    directory: str | Path,
    payloads: Mapping[str, Callable[[], Any]],
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Write the pages and all payloads, whole or not at all; the listing that was written.

    The same catalogue gives the same bytes. Raises ValueError for a directory that holds anything
    else, OSError if it cannot be written.
    """
    check_site_directory(directory)
    sizes: dict[str, int] = {}
    with whole_directory(Path(directory), swapped=True) as part:
        for place, content in _contents(payloads, on_progress):
            (part / place).parent.mkdir(parents=True, exist_ok=True)
            (part / place).write_bytes(content)
            sizes[place] = len(content)
        listing = {"format": FORMAT, "version": __version__, "files": dict(sorted(sizes.items()))}
        text = json.dumps(listing, indent=1, ensure_ascii=False) + "\n"
        (part / LISTING).write_text(text, encoding="utf-8")
    return listing


def static_files() -> dict[str, Traversable]:
    """The files of the pages themselves, by their place in a site."""
    return dict(sorted(_walk(files("ocs_codesign.web").joinpath("static"), "")))


def _walk(folder: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _walk(each, f"{above}{each.name}/")
        else:
            yield f"{above}{each.name}", each


def _contents(
    payloads: Mapping[str, Callable[[], Any]], on_progress: Callable[[int, int], None] | None
) -> Iterator[tuple[str, bytes]]:
    for place, file in static_files().items():
        yield place, file.read_bytes()
    for done, (name, value) in enumerate(payloads.items()):
        if on_progress is not None:
            on_progress(done, len(payloads))
        yield f"data/{name}.js", script(name, value())


def _files_in(directory: Path) -> set[str]:
    """Paths, with slashes, of everything in a directory that is not a directory itself."""
    return {
        path.relative_to(directory).as_posix()
        for path in directory.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def _listed_files(directory: Path) -> set[str]:
    """The files of the site that is in a directory; none if there is no site."""
    try:
        listing = json.loads(read_limited(directory / LISTING, MAX_LISTING_BYTES))
    except (OSError, ValueError, RecursionError):
        return set()
    if not isinstance(listing, dict) or listing.get("format") != FORMAT:
        return set()
    files = listing.get("files")
    return {LISTING, *files} if isinstance(files, dict) else set()
