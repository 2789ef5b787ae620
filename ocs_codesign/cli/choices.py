"""Choices that are looked up when they are needed: what is listed then can be chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ocs_codesign.formats.file_format import Format


@final
class LiveChoice(click.Choice[str]):
    """A choice of names that are not listed before an argument or a help text needs them."""

    def __init__(self, names: Callable[[], Mapping[str, Any]]) -> None:
        self.names = names
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:
        """The names that a registry has by now."""
        return tuple(self.names())

    @choices.setter
    def choices(self, names: Sequence[str]) -> None:
        """Nothing: the registry says."""


@final
class FormatOption(click.Option):
    """``--format``, of which the help lists what formats there are, as in ``Edge list or DOT``."""

    type: LiveChoice

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The option and its help, ``{}`` in which stands for the descriptions of the formats."""
        template = self.help or ""
        text = template.format(described(self.type.names()))
        self.help = text[0].upper() + text[1:]
        try:
            return super().get_help_record(ctx)
        finally:
            self.help = template


def described(formats: Mapping[str, Any]) -> str:
    """Descriptions of formats in a row: ``edge list, GraphML or DOT``."""
    *most, last = [one.description for one in formats.values()]
    return f"{', '.join(most)} or {last}" if most else last


def graph_formats(able: str) -> Callable[[], Mapping[str, Format[Any]]]:
    """The formats of topologies that can ``read`` or ``write``, listed when they are needed."""

    def names() -> Mapping[str, Format[Any]]:
        from ocs_codesign.formats.graphs.graph_files import FORMATS

        return {name: one for name, one in FORMATS.items() if getattr(one, able) is not None}

    return names


def path_formats() -> Mapping[str, Any]:
    """The formats of path tables."""
    from ocs_codesign.formats.path_tables import FORMATS

    return FORMATS


def program_formats(able: str) -> Callable[[], Mapping[str, Any]]:
    """The formats of programs that can ``read``, ``write`` or ``check``, listed when needed."""

    def names() -> Mapping[str, Any]:
        from ocs_codesign.formats.programs.registry import FORMATS

        more = {"write": ("write_book",), "check": ("read",)}
        ways = (able, *more.get(able, ()))
        return {
            name: one
            for name, one in FORMATS.items()
            if any(getattr(one, way) is not None for way in ways)
        }

    return names
