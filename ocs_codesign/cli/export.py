"""``ocs-codesign export``: a design or a book in the formats that runtimes and simulators read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocs_codesign.cli.choices import FormatOption, LiveChoice, program_formats
from ocs_codesign.cli.file_options import DIRECTORY, FILE
from ocs_codesign.cli.message_options import message_option
from ocs_codesign.cli.options import (
    GATHERING,
    bandwidth_option_of,
    collective_choice,
    json_option,
    quantity_option,
)
from ocs_codesign.cli.output import check_outputs, emit
from ocs_codesign.cli.progress import progress
from ocs_codesign.cli.saved import design_of, own_network, verified_book
from ocs_codesign.cli.units import unit_Bps, whole_ticks
from ocs_codesign.quantities import exact, parse_time

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.book import Book
    from ocs_codesign.cli.progress import Progress
    from ocs_codesign.formats.programs.export import Export, ProgramFormat


@click.command(short_help="Write a schedule for a runtime or simulator.")
@click.argument("design", type=FILE, metavar="DESIGN|BOOK")
@click.option(
    "--to",
    "format_name",
    cls=FormatOption,
    type=LiveChoice(program_formats("write")),
    required=True,
    help="{}.",
)
@click.option(
    *("--out", "directory"),
    type=DIRECTORY,
    metavar="DIR",
    required=True,
    help="Where to put the files.",
)
@collective_choice(*GATHERING)
@message_option
@bandwidth_option_of("Largest total egress of a host, such as 100Gbps, where a format has rates.")
@quantity_option("--latency", parse_time, "Latency of every link, where a format has one.")
@click.option("--in-place", is_flag=True, help="Input and output are parts of one buffer.")
@json_option
def export(
    design: str,
    format_name: str,
    directory: str,
    collective: str,
    message: float | None,
    bandwidth: float | None,
    latency: float | None,
    in_place: bool,
    json_path: str | None,
) -> int:
    """Write a DESIGN that build saved, a BOOK of compare, or a RECIPE's best schedule.

    The schedule is verified, lowered to operations of ranks, and these are interpreted with
    symbolic data before anything is written. What a format cannot carry is refused.

    \b
    Example:
      ocs-codesign build 'Torus((3,3))' --collective allreduce --out torus
      ocs-codesign export torus --to msccl --out torus-msccl
    """
    check_outputs(json_path)
    from ocs_codesign.answers.export import export_json, export_sections
    from ocs_codesign.formats.book_files import is_book
    from ocs_codesign.formats.programs.exports import check_export_directory, save_export
    from ocs_codesign.formats.programs.registry import FORMATS

    check_export_directory(directory)
    form = FORMATS[format_name]
    sizes = (message, bandwidth, None if latency is None else exact(latency))
    with progress("Exporting") as shown:
        if is_book(design):
            book = verified_book(design)
            contents, exports = _of_book(book, Path(design).name, form, message, in_place, shown)
        elif form.write is None:
            raise click.UsageError(f"--to {format_name} is for books, as compare writes them")
        else:
            exports = [exported_design(design, collective, sizes, in_place)]
            contents = dict(form.write(exports[0]))
        shown.tell_phase("Writing the files", 0, 0)
        answer = export_json(format_name, exports, contents, directory)
        save_export(contents, answer["of"], directory)
    emit(answer, json_path, export_sections(answer, form))
    return 0


def exported_design(
    text: str,
    collective: str,
    sizes: tuple[float | None, float | None, Fraction | None],
    in_place: bool,
) -> Export:
    """The design of that name, or the recipe's, ready to leave."""
    from ocs_codesign.formats.programs.exports import exported

    message, bandwidth, latency_s = sizes
    loaded = design_of(text, collective)
    if loaded.circuits is not None:
        raise ValueError(f"{text} changes circuits while it runs: no format can carry that")
    network = own_network(loaded)
    if latency_s is not None:
        ticks = whole_ticks(latency_s, network, "--latency")
        network = network.changed(latency=[ticks] * network.num_links)
    return exported(
        Path(text).name if Path(text).exists() else text,
        loaded.schedule,
        network,
        unit_Bps=None if bandwidth is None else unit_Bps(network, bandwidth),
        message_bytes=None if message is None else int(message),
        in_place=in_place,
    )


def _of_book(
    book: Book,
    name: str,
    form: ProgramFormat,
    message: float | None,
    in_place: bool,
    shown: Progress,
) -> tuple[dict[str, bytes], list[Export]]:
    """The files of a book: all at once, or of every page in a directory of its own."""
    from ocs_codesign.formats.programs.exports import exported, plain_name

    if form.write_book is not None:
        return dict(form.write_book(book, plain_name(name))), []
    if form.write is None:
        raise ValueError(f"{form.description} cannot be written")
    pages = book.pages if message is None else (book.page_of(int(message)),)
    contents: dict[str, bytes] = {}
    exports = []
    for number, page in enumerate(pages, 1):
        one = exported(
            f"{number}-{page.maker}",
            page.plan,
            book.network,
            unit_Bps=book.unit_Bps,
            message_bytes=page.from_bytes if message is None else int(message),
            in_place=in_place,
        )
        exports.append(one)
        for file, content in form.write(one).items():
            contents[f"{one.name}/{file}"] = content
        shown.tell(number, len(pages))
    return contents, exports
