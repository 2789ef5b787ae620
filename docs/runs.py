"""Blocks of the manual that are run when it is built: what they print and draw is shown, and kept.

    ```{run} bash
    :lines: 12
    :alt: what the picture shows

    ocs-codesign frontier --nodes 12 --degree 4 --plot frontier.png
    ```

The blocks of a page run one after the other in one directory, each in a process of its own. Below
a block stands what it prints, at most ``lines`` of it, ``...`` for what matches ``varies``, and
every ``.png`` that the block names, light and dark. Pages run two at a time, and again only where
their blocks or the package have changed. A block that fails fails the build.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
KEPT = HERE / "_ran"
"""A directory a page: ``ran.json`` and the pictures."""

sys.path.insert(0, str(ROOT / "experiments"))

LINES = 24
"""Of an output, as many as are shown."""
_LONGEST_S = 300
_WORKERS = 2
_BASH = shutil.which("bash") or "bash"
_PAGE = re.compile(r"^```\{run\} (\w+)\n(?::[^\n]*\n)*\n?(.*?)^```$", re.M | re.S)
_PICTURE = re.compile(r"[\w-]+\.png")


class Ran(NamedTuple):
    """What a block printed, and the files of the pictures that it wrote."""

    printed: str
    pictures: Sequence[str] = ()


Blocks = Sequence[tuple[str, str]]
"""Languages and texts, in the order of the page."""
Maker = Callable[[Blocks, Path], list[Ran]]


def blocks_of(page: Path) -> Blocks:
    """The blocks of a page that are run."""
    return _PAGE.findall(page.read_text(encoding="utf-8"))


def name_of(page: Path) -> str:
    """Under which what a page has run is kept."""
    return str(page.relative_to(HERE).with_suffix(""))


def run_pages() -> None:
    """Run what every page has to run, unless it is kept."""
    pages = {name_of(page): blocks_of(page) for page in HERE.rglob("*.md")}
    run_all({name: blocks for name, blocks in pages.items() if blocks}, run_blocks)


def run_all(asked: Mapping[str, Blocks], make: Maker) -> dict[str, list[Ran]]:
    """What every page of blocks gave, those that are not kept run two at a time."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        made = pool.map(lambda name: kept(name, asked[name], make), asked)
        return dict(zip(asked, made, strict=True))


def kept(name: str, blocks: Blocks, make: Maker) -> list[Ran]:
    """What is kept of a page, if its blocks and the package are what they were; else it is made."""
    place = KEPT / name
    file = place / "ran.json"
    digest = sha256(json.dumps([package_digest(), blocks]).encode()).hexdigest()
    if file.exists():
        known = json.loads(file.read_text(encoding="utf-8"))
        if known["digest"] == digest:
            return [Ran(*each) for each in known["ran"]]
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    ran = make(blocks, place)
    file.write_text(json.dumps({"digest": digest, "ran": ran}), encoding="utf-8")
    return ran


@cache
def package_digest() -> str:
    """A digest of all files of the package, and of what runs blocks."""
    digest = sha256()
    files = sorted(path for path in (ROOT / "ocs_codesign").rglob("*") if path.is_file())
    for path in [*files, HERE / "runs.py", HERE / "pages.py"]:
        if path.parent.name != "__pycache__":
            digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


def environment(place: Path) -> dict[str, str]:
    """A shell in which the package is installed, and nothing is remembered."""
    (place / "bin").mkdir()
    command = place / "bin" / "ocs-codesign"
    command.write_text(
        f"#!{sys.executable}\nimport sys\nfrom ocs_codesign.faces.cli import main\n"
        'if __name__ == "__main__":\n    sys.exit(main())\n',
        encoding="utf-8",
    )
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "OCS_CODESIGN_CACHE": str(place / "cache"),
        "NO_COLOR": "1",
    }


def run_blocks(blocks: Blocks, place: Path) -> list[Ran]:
    """Run the blocks of a page; their pictures go into a place."""
    with tempfile.TemporaryDirectory() as room:
        around, work = environment(Path(room)), Path(room) / "work"
        work.mkdir()
        return [
            Ran(_printed(language, text, work, around), list(_pictures(text, work, place, number)))
            for number, (language, text) in enumerate(blocks)
        ]


def _printed(language: str, text: str, work: Path, around: dict[str, str]) -> str:
    done = ended(language, text, work, around)
    if done.returncode != 0:
        raise RuntimeError(f"{text}\n{done.stdout}{done.stderr}")
    return done.stdout.replace(str(work), ".")


def ended(
    language: str, text: str, work: Path, around: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """A process in which a text in a language was run, in a directory and an environment."""
    commands = {"bash": [_BASH, "-euo", "pipefail", "-c", text], "python": [sys.executable, "-"]}
    return subprocess.run(
        commands[language],
        input=text,
        cwd=work,
        env=around,
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        check=False,
    )


def _pictures(text: str, work: Path, place: Path, number: int) -> Sequence[str]:
    """Copy what a block has drawn, with a dark companion; the names of the light ones."""
    from dark_pictures import darkened, png, read

    found = [name for name in dict.fromkeys(_PICTURE.findall(text)) if (work / name).is_file()]
    for name in found:
        pixels = read(work / name)
        light = place / f"{number}_{name}"
        light.write_bytes(png(pixels))
        light.with_suffix(".dark.png").write_bytes(png(darkened(pixels)))
        (work / name).unlink()
    return [f"{number}_{name}" for name in found]


def shown(printed: str, num_lines: int = LINES, varies: str = "") -> str:
    """What is shown of an output: its first lines, and ``...`` for what differs from run to run."""
    lines = (re.sub(varies, "...", printed) if varies else printed).rstrip().splitlines()
    left_out = len(lines) - num_lines
    if left_out > 0:
        lines = [*lines[:num_lines], f"... {left_out} more line{'s' * (left_out > 1)}"]
    return "\n".join(lines)
