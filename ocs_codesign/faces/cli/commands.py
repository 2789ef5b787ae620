"""How commands are written: functions whose defaults are their options, and that return an Answer.

    class OptimumOptions(OptionGroup):
        network: str = argument("network")
        lost: tuple[str, ...] = LOST

    @command(plot="the network")
    def optimum(given: OptimumOptions = group(OptimumOptions)) -> Answer: ...

Of more than a few options a class is made, whose attributes they are. A command has --json, --csv,
--wide and, with ``plot``, --plot; outputs that cannot be written are refused before it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, dataclass_transform, final

import click

from ocs_codesign.faces.cli.output import OUTPUTS, READ, Answer, check_outputs, publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def option(*names: str, **settings: Any) -> Any:
    """An option as the default of a parameter, which says what it is called there.

    A default is shown in the help.
    """
    settings.setdefault("show_default", settings.get("default") is not None)
    return click.option(*names, **settings)


def argument(*names: str, **settings: Any) -> Any:
    """An argument as the default of a parameter."""
    return click.argument(*names, **settings)


@final
class _Group:
    """Options that belong together: what a function or class makes of those in its defaults."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make


@dataclass_transform(frozen_default=True)
class OptionGroup:
    """A frozen value whose attributes are options, arguments and groups of them."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


def group(make: Callable[..., Any]) -> Any:
    """Several options as the default of one parameter, whose value ``make`` makes of them.

    >>> LOW, HIGH = option("--low", type=int), option("--high", type=int)
    >>> def span(low: int = LOW, high: int = HIGH) -> range:
    ...     return range(low, high)
    >>> @command(json=False)
    ... def length(numbers: range = group(span)) -> None:
    ...     click.echo(len(numbers))
    >>> length(["--low", "2", "--high", "9"], standalone_mode=False)
    7
    """
    return _Group(make)


def together(**options: Any) -> Any:
    """Several options as the default of one parameter, which is a dict of their values."""

    def make(**values: Any) -> dict[str, Any]:
        return values

    keyword = Parameter.KEYWORD_ONLY
    named = [Parameter(name, keyword, default=each) for name, each in options.items()]
    make.__signature__ = signature(make).replace(parameters=named)  # type: ignore[attr-defined]
    return _Group(make)


def command(
    name: str | None = None,
    *,
    plot: str = "",
    json: bool = True,
    of: click.Group | None = None,
    **settings: Any,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function with options as defaults a command, ``of`` a group if one is given.

    One that takes a network has --speed and --without for the files of others, and, as one that
    takes a graph, --speed-attribute.
    """

    def made(function: Callable[..., Any]) -> click.Command:
        @wraps(function)
        def call(**values: Any) -> Any:
            return _called(function, values)

        params = list(_declared(function))
        told = {"plot": _plot(plot)} if plot else {}
        names = {each.name for each in params}
        told |= _READINGS if _NETWORKS & names else {}
        told |= _OF_GRAPHS if _GRAPHS & names else {}
        for each, declared in (told | (_OUTPUTS if json else {})).items():
            params += _params(each, declared)
        call.__click_params__ = params[::-1]  # type: ignore[attr-defined]
        finished = click.command(name, cls=_Command, **settings)(call)
        if of is not None:
            of.add_command(finished)
        return finished

    return made


def _declared(make: Callable[..., Any]) -> Iterator[click.Parameter]:
    """The parameters of the command line that the defaults of a function are."""
    for parameter in signature(make).parameters.values():
        if isinstance(parameter.default, _Group):
            yield from _declared(parameter.default.make)
        else:
            yield from _params(parameter.name, parameter.default)


def _params(name: str, declare: Callable[..., Any]) -> list[click.Parameter]:
    """What click makes of an option, under the name that the function has for it."""

    def holder() -> None: ...

    declare(holder)
    params: list[click.Parameter] = holder.__click_params__  # type: ignore[attr-defined]
    for each in params:
        each.name = name
    return params


def _called(make: Callable[..., Any], values: dict[str, Any]) -> Any:
    """What a function makes of the values of its options."""
    given = {
        parameter.name: _called(parameter.default.make, values)
        if isinstance(parameter.default, _Group)
        else values[parameter.name]
        for parameter in signature(make).parameters.values()
    }
    return make(**given)


@final
class OutputFile(click.Path):
    """A file to write; - is standard output."""


@final
class _Picture(click.Path):
    """A file for a picture, whose suffix says what kind."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if value == "-":
            self.fail("a picture is a file: it cannot go to standard output", param, ctx)
        from pathlib import Path

        from ocs_codesign.faces.pictures.files import check_suffix

        try:
            check_suffix(Path(value).suffix)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return super().convert(value, param, ctx)


MAX_NUMBER, MAX_QUESTIONS, MAX_WHOLE = 2**20, 2**16, 2**31 - 1


@final
class WholeNumbers(click.ParamType):  # type: ignore[type-arg]
    """Whole numbers, as in 7, 2-64 or 4,8,16-32; ``each`` is a question of its own where one is."""

    name = "range"

    def __init__(self, least: int = 1, *, each: bool = False) -> None:
        self.least, self.each = least, each

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """The numbers in their order, each once."""
        if not isinstance(value, str):
            return tuple(value)
        numbers: set[int] = set()
        for part in value.split(","):
            first, dash, last = (text.strip() for text in part.partition("-"))
            ends = [text for text in (first, last if dash else first) if text.isascii()]
            if not all(text.isdigit() and len(text) < 20 for text in ends) or len(ends) < 2:
                self.fail(f"{value!r} is not a range of whole numbers such as 2-64", param, ctx)
            low, high = map(int, ends)
            if high > MAX_NUMBER:
                self.fail(f"{value!r}: numbers go up to {MAX_NUMBER}", param, ctx)
            if not self.least <= low <= high:
                text = f"{value!r} is not a range of whole numbers of at least {self.least}"
                self.fail(text, param, ctx)
            numbers.update(range(low, high + 1))
        return tuple(sorted(numbers))


def spelled(numbers: tuple[int, ...]) -> str:
    """Numbers as they can be given again.

    >>> spelled((2, 3, 4, 8))
    '2-4,8'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


OUTPUT = OutputFile(readable=False, allow_dash=True)
_OUTPUTS = {
    "json": click.option(
        "--json",
        type=OUTPUT,
        metavar="FILE",
        help="Write the answer as JSON; - is standard output.",
    ),
    "csv": click.option(
        "--csv", type=OUTPUT, metavar="FILE", help="Write its first table as CSV, with all rows."
    ),
    "wide": click.option("--wide", is_flag=True, help="Tables as wide as they are, not the page."),
}


_READINGS = {
    "link_speed": click.option(
        "--speed",
        multiple=True,
        metavar="LINK=QUANTITY",
        help="Of a network in somebody else's file: the bandwidth of links of a name, each way, "
        "such as nvlink=50GB/s; may be repeated.",
    ),
    "without_link": click.option(
        "--without",
        multiple=True,
        metavar="LINK",
        help="Of a network in somebody else's file: links of this name are left out; may be "
        "repeated.",
    ),
}
"""What is asked for beside files of networks."""
_OF_GRAPHS = {
    "speed_attribute": click.option(
        "--speed-attribute",
        metavar="NAME",
        help="Of a graph in a file: the attribute of edges that is their speed, or none if links "
        "are alike (default: bandwidth, capacity, speed or LinkSpeedRaw).",
    )
}
"""What is asked for beside files of graphs."""
_NETWORKS = {"network", "networks", "given", "budget"}
"""Parameters that may be files of networks."""
_GRAPHS = {*_NETWORKS, "graph", "undirected"}
"""Parameters of commands that read files of graphs."""


def _plot(what: str) -> Callable[..., Any]:
    """The option --plot, a file for a picture of ``what``."""
    text = f"Draw {what}: .png, .svg or .pdf."
    return click.option("--plot", type=_Picture(readable=False), metavar="FILE", help=text)


def _rule(kind: click.ParamType) -> str:  # type: ignore[type-arg]
    """What a number or a choice has to be; nothing for types that say so themselves."""
    if isinstance(kind, click.Choice):
        return f"one of {', '.join(map(str, kind.choices))}"
    if not isinstance(kind, (type(click.INT), type(click.FLOAT))):
        return ""
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    than = "more than" if getattr(kind, "min_open", False) else "at least"
    ends = (
        ""
        if least is None
        else f" of {than} {least}"
        if most is None
        else f" from {least} to {most}"
    )
    return ("a whole number" if isinstance(kind, type(click.INT)) else "a number") + ends


@final
class _Command(click.Command):
    """A command whose answer is written and shown."""

    allow_extra_args = True  # which are refused here

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """What is left of a command line: nothing, or it is refused."""
        given = list(args)
        try:
            left = super().parse_args(ctx, args)
        except click.BadOptionUsage as error:
            error.ctx = ctx
            raise
        except click.BadParameter as error:
            param = error.param
            rule = "" if param is None else _rule(param.type)
            if param is None or not rule:
                raise
            values = self.make_parser(ctx).parse_args(given)[0].get(param.name or "")
            for value in values if isinstance(values, (list, tuple)) else [values]:
                try:
                    param.type(value, param, ctx)
                except click.BadParameter:
                    raise click.BadParameter(f"{value!r} is not {rule}", ctx, param) from None
            raise
        for each in self.params:
            number = ctx.params.get(each.name or "")
            if not isinstance(each.type, type(click.INT)) or "--seed" in each.opts:
                continue
            if isinstance(number, int) and abs(number) > MAX_WHOLE:
                raise click.BadParameter(f"{number}: numbers go up to {MAX_WHOLE}", ctx, each)
        if left and not ctx.resilient_parsing:
            raise click.UsageError(f"unexpected extra argument '{left[0]}'", ctx)
        return left

    def invoke(self, ctx: click.Context) -> Any:
        """Its exit code."""
        written = (OutputFile, _Picture)
        check_outputs(
            *(ctx.params.get(each.name or "") for each in self.params if type(each.type) in written)
        )
        for output in ("plot", *_READINGS, *_OF_GRAPHS, *_OUTPUTS):
            ctx.meta[f"{OUTPUTS}.{output}"] = ctx.params.pop(output, None)
        ranges = {
            each.name or "": each.type
            for each in self.params
            if isinstance(each.type, WholeNumbers)
        }
        number = prod(len(ctx.params.get(name) or "1") for name in ranges)
        if number > MAX_QUESTIONS:
            rule = f"{number} questions: at most {MAX_QUESTIONS} are asked at once"
            raise click.UsageError(rule, ctx)
        each_of = [name for name, kind in ranges.items() if kind.each]
        questions = list(product(*(ctx.params.get(name) or (0,) for name in each_of)))
        if len(questions) > 1 and ctx.meta[f"{OUTPUTS}.plot"] is not None:
            raise click.UsageError("--plot is for one question: give one number each", ctx)
        answers = []
        for question in questions:
            ctx.params |= dict(zip(each_of, question, strict=True))
            answers.append(super().invoke(ctx))
        answer = answers[0] if len(answers) == 1 else Answer.joined(answers)
        if isinstance(answer, Answer):
            answer = answer.of_files(ctx.meta.get(READ, ()))
        return publish(answer) if isinstance(answer, Answer) else answer
