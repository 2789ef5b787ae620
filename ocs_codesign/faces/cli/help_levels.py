"""What every command has: -v and -q, short options, and help in two levels."""

from __future__ import annotations

import click

from ocs_codesign.faces.cli.progress import add_verbosity

SHORT = {
    "--collective": "-c",
    "--degree": "-d",
    "--format": "-f",
    "--json": "-j",
    "--message": "-m",
    "--nodes": "-n",
    "--out": "-o",
    "--scheduler": "-s",
}
"""The options that have a letter, the same in every command."""

RARE = frozenset(
    {
        *("--aggregation", "--barrier", "--chunks", "--csv", "--cut-through", "--dask", "--effort"),
        *("--elements", "--fallback", "--free-hosts", "--gap", "--graph-nodes", "--in-place"),
        *("--latency-model", "--max-chunks", "--max-configurations", "--max-hops", "--min-chunk"),
        *("--nic-on", "--objective", "--option", "--parts", "--plane-stops", "--port-model"),
        *("--prefer", "--relay", "--root", "--rules", "--seed", "--simulations", "--slice"),
        *("--solver", "--trees", "--virtual-channels", "--wide"),
    }
)
"""Options that only --help-all shows."""


def _show_all(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        show_rare(ctx.command)
        click.echo(ctx.get_help())
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help="Show rarely used options too.",
)


def show_rare(command: click.Command) -> None:
    """Let the help of a command show all its options."""
    for option in command.params:
        if isinstance(option, click.Option):
            option.hidden = False


def finished(command: click.Command) -> None:
    """Give a command, and those in its group, what every command has; once."""
    add_verbosity(command)
    for option in command.params:
        if isinstance(option, click.Option):
            name = max(option.opts, key=len)
            short = SHORT.get(name)
            if short is not None and short not in option.opts:
                option.opts.insert(0, short)
            option.hidden = option.hidden or name in RARE
    has_rare = any(isinstance(each, click.Option) and each.hidden for each in command.params)
    if has_rare and _HELP_ALL not in command.params:
        command.params.append(_HELP_ALL)
    if type(command) is click.Group:
        for inner in command.commands.values():
            finished(inner)
