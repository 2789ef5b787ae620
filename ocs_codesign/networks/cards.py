"""Network cards (NICs) of servers: where each hangs, what joins them, what is lost of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from ocs_codesign.network import Network
from ocs_codesign.networks.cables import check_hosts
from ocs_codesign.networks.damaged import damaged, links_named
from ocs_codesign.networks.direct import as_network

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ocs_codesign.given import NetworkLike

GPU, SHARED, SWITCH = "gpu", "shared", "switch"
NIC = "nic"
RAILS, ACROSS = "rails", "across"


def server_names(num_servers: int, names: Sequence[str] | None) -> list[str]:
    """The names that are given, or server0 and so on; ValueError for another number of them."""
    servers = [f"server{s}" for s in range(num_servers)] if names is None else list(names)
    if len(servers) != num_servers:
        raise ValueError(f"there are {len(servers)} names for {num_servers} servers")
    return servers


def after_losses(
    outer: Network, servers: list[str], lost: Sequence[str], slow: Sequence[tuple[str, int]]
) -> tuple[Network, list[str]]:
    """The outer network without links that are lost or at a lost NIC, and the lost servers."""
    if not lost and not slow:
        return outer, []
    each = outer.num_hosts // len(servers)
    names = [f"{server}.nic{nic}" for server in servers for nic in range(each)]
    names += [f"switch{at}" for at in range(outer.num_nodes - outer.num_hosts)]
    named = damaged(outer.changed(outer.bandwidth, names), (), slow)
    links = {link for text in lost for link in links_named(named, text).tolist()}
    return named.without(links), [text for text in lost if text in servers]


def check_words(wiring: str, relay: str) -> None:
    """ValueError unless both are words that ``servers`` knows."""
    for what, word, known in (("wiring", wiring, (RAILS, ACROSS)), ("relay", relay, (GPU, NIC))):
        if word not in known:
            raise ValueError(f"{what} is {word!r}: it is {known[0]} or {known[1]}")


def joined_cards(
    num_servers: int, outer: NetworkLike | Sequence[NetworkLike], rails: int, how: str
) -> Network:
    """The network of all cards, NIC r of server s being host s * R + r."""
    if how == ACROSS:
        if isinstance(outer, (list, tuple)):
            raise ValueError("the outer networks are several: across rails there is one")
        return as_network(cast("NetworkLike", outer))
    check_hosts(num_servers * rails)
    several = list(outer) if isinstance(outer, (list, tuple)) else [outer] * rails
    if not several or len(several) != rails:
        raise ValueError(f"the outer networks are {len(several)}: give one, or {rails}, one a rail")
    networks = [as_network(cast("NetworkLike", one)) for one in several]
    for rail, network in enumerate(networks):
        if network.num_hosts != num_servers:
            raise ValueError(
                f"rail {rail} has {network.num_hosts} nodes, but there are {num_servers} servers"
            )
    nodes = num_servers * rails
    columns: list[NDArray[np.int64]] = []
    able: tuple[list[int], list[int]] = ([], [])
    for rail, network in enumerate(networks):
        number = nodes - num_servers + np.arange(network.num_nodes)
        number[:num_servers] = np.arange(num_servers) * rails + rail
        nodes += network.num_nodes - num_servers
        ends = number[network.tail], number[network.head]
        columns.append(np.stack([*ends, network.bandwidth, network.latency]))
        for switches, is_able in zip(able, (network.multicast, network.aggregate), strict=True):
            switches += number[is_able].tolist()
    links = np.concatenate(columns, axis=1)
    return Network(
        *(num_servers * rails, nodes, *links),
        multicast=able[0],
        aggregate=able[1],
        unit=networks[0].unit,
    )


def check_count(outer: Network, num_servers: int, num_nics: int | None, wiring: str) -> None:
    """ValueError unless the outer network has equally many cards of every server."""
    if num_servers < 1 or outer.num_hosts % num_servers:
        raise ValueError(
            f"the outer network has {outer.num_hosts} nodes for {num_servers} servers: "
            "there are equally many NICs a server"
        )
    each = outer.num_hosts // num_servers
    if wiring == ACROSS and num_nics not in (None, each):
        raise ValueError(
            f"the outer network has {outer.num_hosts} nodes: {num_servers} servers of {num_nics} "
            f"NICs have {num_servers * (num_nics or 0)}"
        )


def attached(
    attach: str | Sequence[Sequence[int]], inner: Network, nics: int
) -> list[tuple[int, ...]]:
    """The GPUs that every NIC of a server hangs on, none for the switch.

    ``attach`` is as in ``servers``; ValueError for what does not fit.

    >>> from ocs_codesign.networks.switched import star
    >>> attached("shared", star(4, 1), 2)
    [(0, 1), (2, 3)]
    """
    gpus = inner.num_hosts
    if attach == SWITCH or (not isinstance(attach, str) and () in map(tuple, attach)):
        if inner.num_nodes == gpus:
            raise ValueError("NICs hang on the inner switch, but there is none: GPUs are linked")
        if attach == SWITCH:
            return [()] * nics
    if attach == GPU:
        return [(nic * gpus // nics,) for nic in range(nics)]
    if attach == SHARED:
        if gpus % nics:
            raise ValueError(f"{gpus} GPUs cannot share {nics} NICs evenly: say which share which")
        return [tuple(range(nic * gpus // nics, (nic + 1) * gpus // nics)) for nic in range(nics)]
    if isinstance(attach, str):
        raise ValueError(f"attach is {attach!r}: it is gpu, shared, switch or a list of GPUs a NIC")
    cards = [tuple(card) for card in attach]
    if len(cards) != nics:
        raise ValueError(f"attach has GPUs for {len(cards)} NICs, but a server has {nics}")
    for nic, card in enumerate(cards):
        if not all(0 <= gpu < gpus for gpu in card) or len(set(card)) < len(card):
            raise ValueError(f"NIC {nic} hangs on GPUs {card}: they are different ones of {gpus}")
    return cards
