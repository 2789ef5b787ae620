"""``ocs-codesign example``: the files that the manual's commands read."""

from __future__ import annotations

from importlib.resources import files
from os.path import exists
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.progress import tell, tell_phase
from ocs_codesign.core.quantities import exact, parse_time
from ocs_codesign.faces.cli import options as opt
from ocs_codesign.faces.cli.build import BEST, ROOTED, GreedyChoice
from ocs_codesign.faces.cli.classic import option_option
from ocs_codesign.faces.cli.commands import OptionGroup, argument, command, group, option, together
from ocs_codesign.faces.cli.message_options import message_option, unit_Bps, whole_ticks
from ocs_codesign.faces.cli.output import (
    STDOUT,
    Answer,
    answered,
    asked_output,
    check_outputs,
    json_bytes,
    publish,
)
from ocs_codesign.faces.cli.progress import progress
from ocs_codesign.faces.cli.saved import design_of, own_network, verified_book
from ocs_codesign.faces.cli.verify import import_program
from ocs_codesign.schedules.registry import SCHEDULERS

if TYPE_CHECKING:
    from fractions import Fraction

    from ocs_codesign.core.plans import Book
    from ocs_codesign.interop.registry import Export, ProgramFormat
    from ocs_codesign.interop.run.launch import RunJob
    from ocs_codesign.interop.run.performance import RunOutcome
    from ocs_codesign.interop.runtimes.registry import Runtime
    from ocs_codesign.interop.runtimes.running import MessagesJob


@command()
def example(
    directory: str = argument("directory", type=click.Path(), metavar="[DIR]", default="."),
) -> Answer:
    """Write the example files into DIR, by default the working directory.

    Models, with the source of every number: Llama 3 8B, 70B and 405B, Mixtral 8x7B and 8x22B,
    DeepSeek-V3, GPT-3, DLRM, ResNet-50. Machines: DGX A100, H100 and B200, GB200 NVL72, MI300X.
    answers.schema.json is the JSON Schema of what every command writes with --json.

    \b
    Example:
      ocs-codesign example .
      ocs-codesign plan trace.csv --nodes 16 --degree 4 --delta 100us \\
          --alpha 10us --bandwidth 400Gbps

    Files of the same names with other contents are not replaced.
    """
    from ocs_codesign.faces.answers.declared import SCHEMA_FILE, answers_schema
    from ocs_codesign.faces.answers.example import EXAMPLES

    into = Path(directory)
    if into.exists() and not into.is_dir():
        raise ValueError(f"{directory} is a file: the examples go into a directory")
    packaged = files("ocs_codesign.faces").joinpath("examples")
    contents = {
        into / name: json_bytes(answers_schema())
        if name == SCHEMA_FILE
        else packaged.joinpath(name).read_bytes()
        for name in EXAMPLES
    }
    for path, content in contents.items():
        if path.exists() and path.read_bytes() != content:
            raise ValueError(f"{path} is there already and is another file: nothing was written")
    new = {str(path): content for path, content in contents.items() if not path.exists()}
    into.mkdir(parents=True, exist_ok=True)
    return answered("example.example", directory, tuple(new), files=new)


# ``ocs-codesign export``: a design or a book in the formats that runtimes and simulators read.


class ExportOptions(OptionGroup):
    """What is written in which format, and for which links."""

    design: str = argument("design", type=opt.FILE, metavar="DESIGN|BOOK")
    format_name: str = option(
        "--format",
        cls=opt.FormatOption,
        type=opt.LiveChoice(opt.program_formats("write")),
        required=True,
        help="{}.",
    )
    directory: str = option(
        "--out", type=opt.DIRECTORY, metavar="DIR", required=True, help="Where to put the files."
    )
    collective: str = opt.collective_choice(*opt.GATHERING)
    message: float | None = message_option
    bandwidth: float | None = opt.bandwidth_option_of(
        "Largest total egress of a host, such as 100Gbps, where a format has rates."
    )
    latency: float | None = opt.quantity_option(
        "--latency", parse_time, "Latency of every link, where a format has one."
    )
    in_place: bool = option(
        "--in-place", is_flag=True, help="Input and output are parts of one buffer."
    )


@command()
def export(given: ExportOptions = group(ExportOptions)) -> Answer:
    """Write a DESIGN that build saved, a BOOK of compare, or a RECIPE's best schedule.

    The schedule is verified, lowered to operations of ranks, and these are interpreted with
    symbolic data before anything is written. What a format cannot carry is refused.

    \b
    Example:
      ocs-codesign build 'Torus((3,3))' --collective allreduce --out torus
      ocs-codesign export torus --format msccl --out torus-msccl
    """
    from ocs_codesign.faces.answers.declared import answer_json
    from ocs_codesign.faces.answers.programs import export_sections
    from ocs_codesign.interop.exports import check_export_directory, save_export
    from ocs_codesign.interop.registry import FORMATS
    from ocs_codesign.schedules.files.books import is_book

    design, directory, format_name = given.design, given.directory, given.format_name
    check_export_directory(directory)
    form = FORMATS[format_name]
    latency_s = None if given.latency is None else exact(given.latency)
    sizes = (given.message, given.bandwidth, latency_s)
    with progress("Exporting"):
        if is_book(design):
            book = verified_book(design)
            contents, exports = _of_book(given, book, form)
        elif form.write is None:
            raise click.UsageError(f"--format {format_name} is for books, as compare writes them")
        else:
            exports = [exported_design(design, given.collective, sizes, given.in_place)]
            contents = dict(form.write(exports[0]))
        tell_phase("Writing the files", 0, 0)
        answer = answer_json("programs.export", format_name, exports, contents, directory)
        save_export(contents, answer["of"], directory)
    return Answer(answer, export_sections(answer, form))


def exported_design(
    text: str,
    collective: str,
    sizes: tuple[float | None, float | None, Fraction | None],
    in_place: bool,
) -> Export:
    """The design of that name, or the recipe's, ready to leave."""
    from ocs_codesign.interop.exports import exported

    message, bandwidth, latency_s = sizes
    loaded = design_of(text, collective)
    if loaded.circuits is not None:
        raise ValueError(f"{text} changes circuits while it runs: no format can carry that")
    network = own_network(loaded)
    if latency_s is not None:
        ticks = whole_ticks(latency_s, network, "--latency")
        network = network.changed(latency=[ticks] * network.num_links)
    return exported(
        opt.name_of(text),
        loaded.schedule,
        network,
        unit_Bps=None if bandwidth is None else unit_Bps(network, bandwidth),
        message_bytes=None if message is None else int(message),
        in_place=in_place,
    )


def _of_book(
    given: ExportOptions, book: Book, form: ProgramFormat
) -> tuple[dict[str, bytes], list[Export]]:
    """The files of a book: all at once, or of every page in a directory of its own."""
    from ocs_codesign.interop.exports import exported, plain_name

    message = given.message
    if form.write_book is not None:
        return dict(form.write_book(book, plain_name(Path(given.design).name))), []
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
            in_place=given.in_place,
        )
        exports.append(one)
        for file, content in form.write(one).items():
            contents[f"{one.name}/{file}"] = content
        tell(number, len(pages))
    return contents, exports


# ``ocs-codesign topology`` and ``import``: graphs written for, and read from, other tools.


@command(plot="the graph")
def topology(
    recipe: str | None = opt.recipe_argument,
    graph: str | None = opt.graph_option,
    network: str | None = opt.network_option,
    format_name: str | None = option(
        "--format",
        cls=opt.FormatOption,
        type=opt.LiveChoice(lambda: {**opt.scheduler_formats(), **opt.graph_formats("write")()}),
        help="{}: as the suffix of --out tells, else an edge list; the first five are for a "
        "--network.",
    ),
    out: str = option(
        "--out",
        type=opt.PLACE,
        metavar="FILE",
        default=STDOUT,
        show_default=False,
        help="Where to; standard output if absent.",
    ),
) -> Answer:
    """Write the links of a RECIPE, or of a graph from a file, for other tools, and draw it.

    Of a --network with switches it writes the tree of servers and switches that a scheduler goes
    by: servers are boxes of accelerators, or hosts, and switches side by side are one.

    \b
    Example:
      ocs-codesign topology 'Named("petersen")' --format graphml --out petersen.graphml
    """
    if format_name in opt.scheduler_formats() or network is not None:
        return _for_scheduler(recipe, graph, network, format_name, out)
    source = opt.GivenGraph.of(recipe, graph)
    if out == STDOUT == asked_output("json"):
        raise click.UsageError("with --json -, the topology itself needs --out FILE")
    check_outputs(asked_output("json"), out)
    from ocs_codesign.core.files.records import format_by_suffix, writers
    from ocs_codesign.graphs.families.pods import Pod
    from ocs_codesign.graphs.formats.graph_files import FORMATS

    told = format_by_suffix(FORMATS, Path(out))
    if told is not None and format_name not in (None, told):
        raise click.UsageError(f"--out {out} tells {told}, --format {format_name}: which is it?")
    format_name = format_name or told or "edgelist"
    with progress("Building the topology"):
        built = source.topology()
        of, is_json = source.recipe, format_name == "json"
        marks = of.marks() if is_json and isinstance(of, Pod) else {}
        text = writers(FORMATS)[format_name](built, source.name, **marks)
    return answered(
        *("programs.topology", source.recipe, source.graph_name, built, format_name, out),
        files={out: text.encode()},
        figure=("graph.graph_figure", built, source.name),
    )


def _for_scheduler(
    recipe: str | None, graph: str | None, network: str | None, format_name: str | None, out: str
) -> Answer:
    """The tree of a network in a scheduler's file."""
    from ocs_codesign.interop.schedulers import SCHEDULER_FORMATS, server_tree

    if network is None or recipe is not None or graph is not None:
        raise click.UsageError(f"--format {format_name} is for a --network")
    if asked_output("plot") is not None:
        raise click.UsageError("--plot draws a RECIPE or graph: optimum --plot draws a network")
    if format_name not in SCHEDULER_FORMATS:
        listed = ", ".join(SCHEDULER_FORMATS)
        raise click.UsageError(f"of a --network the --format is one of {listed}")
    if out == STDOUT == asked_output("json"):
        raise click.UsageError("with --json -, the file itself needs --out FILE")
    check_outputs(asked_output("json"), out)
    tree = server_tree(opt.network_of(network))
    text = SCHEDULER_FORMATS[format_name].text(tree)
    name = opt.printable(network)
    return answered("programs.tree", name, tree, format_name, out, files={out: text.encode()})


def _is_of_runtimes(file: str, format_name: str) -> bool:
    """Whether a format is one of schedules: the name of both kinds is told by the file."""
    from ocs_codesign.interop.registry import told_format

    if format_name not in opt.program_formats("read")():
        return False
    return format_name not in opt.graph_formats("read")() or told_format(Path(file)) == format_name


@command("import")
def import_command(
    file: str = argument("file", type=opt.INPUT),
    format_name: str | None = option(
        "--format",
        cls=opt.FormatOption,
        type=opt.LiveChoice(
            lambda: {**opt.program_formats("read")(), **opt.graph_formats("read")()}
        ),
        help="The file's format, if its suffix and content do not tell; one of runtimes says that "
        "it is a schedule: verify it, and save it as a design ({}).",
    ),
    undirected: bool = option(
        "--bidirectional", is_flag=True, help="Every line of an edge list is a link each way."
    ),
    out: str | None = option(
        "--out",
        type=opt.PLACE,
        metavar="FILE|DIR",
        help="Write it as an edge list of nodes 0 to N - 1; a schedule as a design.",
    ),
) -> Answer:
    """Read a graph file and say what kind of topology it is, or a schedule of others.

    Nodes with integer names are numbered in ascending order, others in order of appearance. An
    undirected edge becomes a link each way. A third column, or the attribute speed, bandwidth,
    capacity or LinkSpeedRaw of edges, is a link's relative speed; --speed-attribute names another.

    A schedule in a --format of runtimes is interpreted with symbolic data, and what it
    sends is replayed and costed; exit code 1 if it does not do what it says.

    \b
    Example:
      ocs-codesign topology 'Named("petersen")' --format graphml --out petersen.graphml
      ocs-codesign import petersen.graphml
    """
    if format_name is not None and _is_of_runtimes(file, format_name):
        if undirected:
            raise click.UsageError(f"--bidirectional is for graphs, --format {format_name} is not")
        return import_program(file, format_name, out)
    check_outputs(asked_output("json"), out)
    from ocs_codesign.graphs.formats.edge_list import write_edge_list
    from ocs_codesign.graphs.formats.facts import graph_facts
    from ocs_codesign.graphs.formats.graph_files import FORMATS, read_graph

    name = opt.printable(Path(file).name)
    with progress("Reading the graph"):
        graph, told = read_graph(
            file, format_name, undirected=undirected, speed_attribute=opt.speed_attribute()
        )
        facts = graph_facts(graph)
        files = {} if out is None else {out: write_edge_list(graph, name).encode()}
    as_edges = undirected or told != "edgelist"
    read_as = FORMATS[told].description + ("" if as_edges else ", every line a link one way")
    return answered(
        *("programs.import", name, told, facts, out),
        read_as=read_as,
        hint=not as_edges,
        files=files,
    )


# ``ocs-codesign run``: a design on real processes, compared with MPI's own collective.


NEGATIVE = 1
ELEMENT_BYTES = 8
DEFAULT_BYTES = 2**20
DEFAULT_LIMIT_S = 60.0
RUNTIMES = ("mpi", "torch", "jax")
"""As their registry has them, which is not imported where a command line only starts."""

MOST_UNASKED = 64
"""Ranks that are started on one machine without being asked for by number."""


class RunOptions(OptionGroup):
    """What is run on how many ranks, with which data."""

    design: str = argument("design", type=opt.FILE, metavar="DESIGN|BOOK|RECIPE")
    runtime: str = option(
        "--on", type=click.Choice(RUNTIMES), default="mpi", help="Whose ranks: see above."
    )
    ranks: int | None = option(
        "--ranks",
        type=click.IntRange(min=1),
        help="Ranks to start: as many as the design has, which is the default up to 64.",
    )
    message: float | None = message_option
    elements: int | None = option(
        "--elements",
        type=click.IntRange(min=0),
        help="Elements of M, instead of --message in 8 bytes each; they need not divide (default: "
        "131072).",
    )
    seed: int = option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the data.")
    time_limit: float | None = opt.quantity_option(
        "--time-limit", parse_time, "Time for a run of the program, such as 10s (default: 60s)."
    )
    asked: dict[str, Any] = together(
        collective=opt.collective_choice(*opt.GATHERING, opt.ALLTOALL, *ROOTED),
        scheduler=option(
            "--scheduler",
            type=opt.LiveChoice(lambda: {BEST: None, **SCHEDULERS}),
            default=BEST,
            help="Who makes the schedule of a RECIPE; classic algorithms send between any of its "
            "hosts.",
        ),
        options=option_option,
        root=option(
            "--root", type=click.IntRange(min=0), help="The root of a rooted one (default: 0)."
        ),
        format_name=option(
            "--format",
            type=opt.LiveChoice(opt.program_formats("read")),
            help="The format of a program that others wrote, if its name and content do not tell.",
        ),
        in_place=option(
            "--in-place", is_flag=True, help="Input and output are parts of one buffer."
        ),
    )


@command()
def run(given: RunOptions = group(RunOptions)) -> int:
    """Run a DESIGN, a page of a BOOK or a RECIPE's schedule on real processes.

    Every process does the operations of one rank, as data comes, over MPI; where circuits change,
    all meet first. The result of random 64-bit integers and of whole numbers as 32-bit floats is
    compared bit by bit with that of MPI's own collective. On torch every process sends the messages
    of one rank over gloo, step by step; on jax they are permutations between virtual devices of one
    process; both are compared with numpy. Exit code 1 if a rank has another result or, over MPI,
    does not come to its end.

    It starts the ranks itself, those of MPI with Open MPI's mpirun, or is one of those of mpirun -n
    N ocs-codesign run DESIGN, or of torchrun -m ocs_codesign run DESIGN --on torch. The seconds of
    this machine are not those of a network.

    \b
    Example:
      ocs-codesign build 'Complete(3)' --collective allreduce --out design
      ocs-codesign run design --ranks 3
    """
    from ocs_codesign.interop.runtimes.registry import RUNTIMES as BY_NAME

    elements = given.elements
    if elements is not None and given.message is not None:
        raise click.UsageError("give --message or --elements: one follows from the other")
    size = int(DEFAULT_BYTES if given.message is None else given.message)
    elements = size // ELEMENT_BYTES if elements is None else elements
    limit_s = DEFAULT_LIMIT_S if given.time_limit is None else given.time_limit

    on = BY_NAME[given.runtime]

    def made() -> RunJob | MessagesJob:
        return _job(given, on, elements)

    def show(outcome: RunOutcome) -> None:
        publish(answered("programs.run", outcome))

    on.check()
    if on.joined is not None and on.is_joined():
        return on.joined(made, limit_s, show)
    with progress("Preparing the program"):
        job = made()
        if given.ranks is None and job.program.num_ranks > MOST_UNASKED:
            number = job.program.num_ranks
            raise ValueError(f"{number} processes for {job.name}: --ranks {number} starts them")
        tell_phase(f"Running {job.program.num_ranks} ranks")
        outcome = on.launched(job, limit_s)
    show(outcome)
    return 0 if outcome.ok else NEGATIVE


def _job(given: RunOptions, on: Runtime, elements: int) -> RunJob | MessagesJob:
    """The program of what was given, verified as far as it is a plan."""
    text, ranks, asked = given.design, given.ranks, given.asked
    plan, barriers = _plan(text, elements * ELEMENT_BYTES, asked)
    name = opt.name_of(text)
    job: RunJob | MessagesJob
    job = on.job(name, plan, elements, barriers, given.seed, in_place=asked["in_place"])
    if ranks is not None and ranks != job.program.num_ranks:
        raise ValueError(f"--ranks is {ranks}, but {name} is for {job.program.num_ranks} ranks")
    return job


def _plan(text: str, message_bytes: int, asked: dict[str, Any]) -> tuple[Any, tuple[int, ...]]:
    """The plan, or the program, that was given, and the steps before which circuits change."""
    from ocs_codesign.faces.cli.saved import design_of, verified_book
    from ocs_codesign.graphs.handle import asked_digits
    from ocs_codesign.interop.registry import read_program, told_format
    from ocs_codesign.interop.run.launch import steps_of_changes
    from ocs_codesign.schedules.files.books import is_book

    path = Path(text)
    if is_book(path):
        return verified_book(text).page_of(message_bytes).plan, ()
    format_name = asked["format_name"] or told_format(path)
    if format_name is not None:
        return _checked(read_program(path, format_name), path), ()
    is_recipe = text.rstrip().endswith(")") or asked_digits(text) is not None
    if exists(text) or not is_recipe:
        loaded = design_of(text, asked["collective"])
        circuits = loaded.circuits
        return loaded.schedule, () if circuits is None else steps_of_changes(circuits)
    return _made(text, asked), ()


def _checked(given: Any, path: Path) -> Any:
    """A program as it is, since its run is the check; ValueError for a plan that is not right."""
    from ocs_codesign.core.plans import RankProgram
    from ocs_codesign.core.schedule import Messages
    from ocs_codesign.verification.messages import check_messages
    from ocs_codesign.verification.schedules import verify

    if isinstance(given, RankProgram):
        return given
    witness = check_messages(given) if isinstance(given, Messages) else verify(given).witness
    if witness is not None:
        raise ValueError(f"{path} is no valid schedule: {witness}")
    return given


def _made(text: str, asked: dict[str, Any]) -> Any:
    """What a scheduler makes of a recipe: messages between ranks, if it is a classic algorithm."""
    from ocs_codesign.faces.cli.build import algorithm_options, default_scheduler
    from ocs_codesign.schedules.classic.placement import messages_on
    from ocs_codesign.schedules.design import build
    from ocs_codesign.schedules.registry import Task, made_by

    source = opt.GivenGraph.of(text, None)
    collective = GreedyChoice(asked["root"], None, None).collective(asked["collective"])
    options = algorithm_options(asked["scheduler"], asked["options"]) or {}
    name = default_scheduler(asked["scheduler"], asked["collective"], source)
    topology = source.topology()
    if name != BEST and SCHEDULERS[name].is_classic:
        sides = getattr(source.recipe, "sides", None)
        messages, _ = messages_on(topology, name, collective, options, sides)
        return messages
    if name == BEST and source.recipe is not None:
        return build(source.recipe, collective).schedule
    made = made_by(name, Task(topology, collective, source.recipe))
    if made.schedule is None:
        raise ValueError(f"no {collective.text} of {text} was found ({made.maker})")
    return made.schedule
