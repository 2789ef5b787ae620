"""The option --message of one size or several, and what is asked of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ocs_codesign.core.quantities import parse_size
from ocs_codesign.faces.cli.options import quantity_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from ocs_codesign.core.cost import MessageSizes


MESSAGE = (
    "M, the buffer of a rank, such as 1MiB: what an allgather results in, a reduction takes, one "
    "rank sends in an all-to-all"
)


def message_option_of(*, required: bool = False) -> Callable[..., Any]:
    """The option --message of one size."""
    return quantity_option("--message", parse_size, f"{MESSAGE}.", required=required)


message_option = message_option_of()
messages_option = quantity_option(
    *("--message", parse_size, f"{MESSAGE}; may be repeated, or 1MiB,64MiB."),
    "messages",
    multiple=True,
)
min_chunk_option = quantity_option(
    "--min-chunk", parse_size, "Least size of a chunk that parts may cut (default: 1KiB)."
)


def asked_messages(
    alpha: float | None, bandwidth: float | None, messages: tuple[float, ...]
) -> MessageSizes | None:
    """The message sizes and the cost model, if times are asked for."""
    if alpha is None and bandwidth is None and not messages:
        return None
    if alpha is None or bandwidth is None or not messages:
        raise click.UsageError("--alpha, --bandwidth and --message are only given together")
    from ocs_codesign.core.cost import CostModel, MessageSizes

    return MessageSizes(CostModel(alpha, bandwidth), tuple(dict.fromkeys(messages)))
