"""``ocs-codesign example``: the files that the manual's commands read."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from ocs_codesign.cli.options import json_option
from ocs_codesign.cli.output import check_outputs, emit


@click.command(short_help="Write the example files that the manual uses.")
@click.argument("directory", type=click.Path(), metavar="[DIR]", default=".")
@json_option
def example(directory: str, json_path: str | None) -> None:
    """Write the example files into DIR, by default the working directory.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign plan trace.csv --nodes 16 --degree 4 --delta 100us \\
          --alpha 10us --bandwidth 400Gbps

    Files of the same names with other contents are not replaced.
    """
    check_outputs(json_path)
    from ocs_codesign.answers.example import EXAMPLES, example_json, example_sections

    into = Path(directory)
    if into.exists() and not into.is_dir():
        raise ValueError(f"{directory} is a file: the examples go into a directory")
    packaged = files("ocs_codesign").joinpath("examples")
    contents = {into / name: packaged.joinpath(name).read_bytes() for name in EXAMPLES}
    for path, content in contents.items():
        if path.exists() and path.read_bytes() != content:
            raise ValueError(f"{path} is there already and is another file: nothing was written")
    new = {str(path): content for path, content in contents.items() if not path.exists()}
    into.mkdir(parents=True, exist_ok=True)
    emit(example_json(directory, new), json_path, example_sections(directory), new)
