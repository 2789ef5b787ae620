"""The least time of an exchange on any network: exact, with the prices that prove it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, final

import numpy as np

from ocs_codesign.core.lp import DEFAULT_OPTIONS, Status, exact_vertex, solve
from ocs_codesign.core.lp.program import AUTO, IPX_NO_CROSSOVER
from ocs_codesign.core.networks.builders import as_network
from ocs_codesign.core.proven import Proven
from ocs_codesign.schedules.exchange.cuts import cut_bound
from ocs_codesign.schedules.exchange.program import (
    ExchangeLinks,
    colour_program,
    exchange_of,
    price_bound,
    refined,
)
from ocs_codesign.schedules.exchange.rails import rails_of
from ocs_codesign.schedules.paths.certificates import as_prices, integer_prices

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from ocs_codesign.core.compute.cuts import Cut
    from ocs_codesign.core.given import NetworkLike
    from ocs_codesign.core.lp import LinearProgram, Options, Solution
    from ocs_codesign.core.network import Network
    from ocs_codesign.schedules.exchange.program import ColourProgram, Refined
    from ocs_codesign.schedules.exchange.rails import Rails


MAX_COLUMNS = 300_000
MAX_SIMPLEX_COLUMNS, MAX_PRESOLVED_COLUMNS = 3_000, 50_000
_DENOMINATORS = (2, 12, 60, 840, 5040, 10**5, 10**7)
_CLOSE = 2e-9
_FACTORS = (*range(1, 11), 12, 60, 840, 5040)
_LEAST_PRICE = 1e-7


@final
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ExchangeOptimum(Proven[Fraction]):
    """The least U: the time in which hosts get all they have for each other, and its bound.

    A unit of demand crosses a link of one unit of bandwidth in a time of 1. ``demand`` (int64,
    hosts x hosts) is None where every host has a unit for each other. ``price`` (int64, a link) are
    the prices that prove the bound; ``bottleneck`` is a cut as narrow, None if no cheap one is.
    ``num_columns`` are those of the program that was solved.
    """

    network: Network
    demand: NDArray[np.int64] | None
    price: NDArray[np.int64]
    bottleneck: Cut | None
    num_columns: int

    is_sum = False
    """It moves what hosts have and adds nothing up."""

    @property
    def message_units(self) -> int:
        """Units of M: what a host has in all, its own piece included, at most."""
        if self.demand is None:
            return self.network.num_hosts
        return int(self.demand.sum(axis=1).max())

    @property
    def algbw(self) -> Fraction:
        """M over the time, in the network's unit of bandwidth."""
        return self.message_units / self.value

    @property
    def t_b(self) -> Fraction:
        """The time in M/B, B being the largest bandwidth out of a host."""
        return self.network.host_bandwidth() / self.algbw

    def leaving(self) -> NDArray[np.int64]:
        """Ids of the links that leave the bottleneck, or that prices are on where there is none."""
        cut = self.bottleneck
        if cut is None:
            return np.flatnonzero(self.price)
        return np.flatnonzero(leaving(self.network, cut))


def leaving(network: Network, cut: Cut) -> NDArray[np.bool_]:
    """Which links leave a cut's side."""
    return cut.side[network.tail] & ~cut.side[network.head]


def exchange_optimum(
    network: NetworkLike,
    demand: NDArray[np.int64] | None = None,
    relays: Collection[int] | None = None,
    options: Options = DEFAULT_OPTIONS,
    phases: Sequence[NDArray[np.int64]] | None = None,
) -> ExchangeOptimum:
    """The least time of an all-to-all on a network, messages splitting over any paths.

    ``demand`` (int64, hosts x hosts) says what the row's host has for the column's, a unit by
    default; its diagonal does not count. Switches forward, and hosts do, all of them or
    ``relays`` alone. With ``phases`` a path takes links of the first, then of the second, and so
    on, none of some if it likes, and only hosts are between. On rails a cut proves it where equal
    parts over all of them are the best; else a program is solved: exact where it is small
    or its prices are, or its bound is. Raises ValueError as ``exchange_of`` and for programs of
    more than MAX_COLUMNS columns, SolverUnavailableError if the solver cannot take one.

    >>> from ocs_codesign.core.networks.builders import star
    >>> from ocs_codesign.core.networks.products import h100_rail
    >>> [exchange_optimum(one).value for one in (h100_rail(2), star(4, [10, 10, 10, 1]))]
    [Fraction(4, 25), Fraction(3, 1)]
    """
    given = as_network(network)
    if relays is None and phases is None:
        over_rails = balanced_exchange(given, demand)
        if over_rails is not None:
            return over_rails.optimum
    return solved_exchange(given, demand, relays, options, phases).optimum


class BalancedExchange(NamedTuple):
    """An exchange that is best in equal parts over all rails."""

    rails: Rails
    optimum: ExchangeOptimum


def balanced_exchange(
    network: Network, demand: NDArray[np.int64] | None
) -> BalancedExchange | None:
    """The exchange in equal parts over rails, None unless a cut proves it the best."""
    rails, hosts, wanted = rails_of(network), network.num_hosts, demand
    if rails is None:
        return None
    if demand is not None:
        if demand.shape != (hosts, hosts) or (demand < 0).any():
            return None
        wanted = np.where(np.eye(hosts, dtype=bool), 0, demand).astype(np.int64)
    value = rails.time(wanted)
    narrowest = cut_bound(network, wanted, value)
    if narrowest is None or narrowest.inv_rate < value:
        return None
    price = leaving(network, narrowest).astype(np.int64)
    optimum = ExchangeOptimum(
        value,
        value,
        "prices",
        network=network,
        demand=demand,
        price=price,
        bottleneck=narrowest,
        num_columns=0,
    )
    return BalancedExchange(rails, optimum)


class SolvedExchange(NamedTuple):
    """An exchange, its colours and their program, and the optimum."""

    exchange: ExchangeLinks
    colours: Refined
    small: ColourProgram
    optimum: ExchangeOptimum


def solved_exchange(
    network: Network,
    demand: NDArray[np.int64] | None = None,
    relays: Collection[int] | None = None,
    options: Options = DEFAULT_OPTIONS,
    phases: Sequence[NDArray[np.int64]] | None = None,
) -> SolvedExchange:
    """The optimum as ``exchange_optimum`` finds it, with the program that it is of."""
    exchange = exchange_of(network, demand, relays, phases)
    colours = refined(exchange)
    columns = len(colours.rows) * len(exchange.tail)
    if columns > MAX_COLUMNS:
        raise ValueError(
            f"this exchange is a program of up to {columns:,} columns: at most {MAX_COLUMNS:,} "
            "are solved"
        )
    small = colour_program(exchange, colours)
    cut = partial(cut_bound, network, demand)

    def cut_price(enough: Fraction) -> NDArray[np.int64] | None:
        found = cut(enough)
        return None if found is None else leaving(network, found)[exchange.link].astype(np.int64)

    value, price, proof = _solved(exchange, colours, small, options, cut_price)
    bound = price_bound(exchange, price)
    narrowest = cut(bound)
    if narrowest is not None and narrowest.inv_rate < bound:
        narrowest = None
    kept = np.zeros(network.num_links, dtype=np.int64)
    kept[exchange.link] = price
    optimum = ExchangeOptimum(
        max(value, bound),
        bound,
        "prices" if value == bound else proof,
        network=network,
        demand=demand,
        price=kept,
        bottleneck=narrowest,
        num_columns=small.program.num_columns,
    )
    return SolvedExchange(exchange, colours, small, optimum)


def program_options(program: LinearProgram, options: Options) -> Options:
    """Of a large program, an interior point method without a vertex, unless a method was named.

    Of the largest, which no symmetry made small, it takes twice as long with presolve.
    """
    if program.num_columns > MAX_SIMPLEX_COLUMNS and options.method == AUTO:
        presolve = program.num_columns <= MAX_PRESOLVED_COLUMNS
        return replace(options, method=IPX_NO_CROSSOVER, presolve=presolve)
    return options


def _solved(
    exchange: ExchangeLinks,
    colours: Refined,
    small: ColourProgram,
    options: Options,
    cut_price: Callable[[Fraction], NDArray[np.int64] | None],
) -> tuple[Fraction, NDArray[np.int64], str]:
    """U, prices of all links, and how U is known.

    Of a large program the end of an interior point method is tried first: prices, or a cut, may
    prove what its numbers stand for, and no vertex is needed.
    """
    quick = program_options(small.program, options)
    if quick != options:
        inner = solve(small.program, options=quick).taken()
        if inner.status is Status.OPTIMAL:
            value, price = _rounded_and_priced(exchange, colours, small, inner, cut_price)
            if price_bound(exchange, price) == value:
                return value, price, "prices"
    solution = solve(small.program, options=options).taken()
    vertex = exact_vertex(small.program, solution)
    if vertex is None:
        if solution.status is not Status.OPTIMAL:
            raise ValueError(f"the exchange's program is not solved: {solution.message}")
        value, price = _rounded_and_priced(exchange, colours, small, solution, cut_price)
        return value, price, "the solver's tolerance"
    sizes = np.bincount(colours.wire_class).tolist()
    duals = vertex.row_duals[-small.num_classes :]
    shares = [-dual / size for dual, size in zip(duals, sizes, strict=True)]
    whole = integer_prices(shares)
    whole = as_prices(np.array(shares, dtype=float)) if whole is None else whole
    return small.scale * vertex.objective, whole[colours.wire_class], "exact vertex"


def _rounded_and_priced(
    exchange: ExchangeLinks,
    colours: Refined,
    small: ColourProgram,
    solution: Solution,
    cut_price: Callable[[Fraction], NDArray[np.int64] | None],
) -> tuple[Fraction, NDArray[np.int64]]:
    """The fraction that U stands for, and of prices that may prove it the best."""
    values, row_duals = solution.point_and_duals()
    rounded = exchange.scale * _rounded(float(small.scale / exchange.scale) * values[-1])
    shares = np.maximum(-row_duals[-small.num_classes :], 0) / np.bincount(colours.wire_class)
    tried = [whole[colours.wire_class] for whole in _whole(shares)]
    narrowest = cut_price(rounded)
    if narrowest is not None:
        tried.insert(0, narrowest)
    best, price = Fraction(0), np.ones(len(exchange.width), dtype=np.int64)
    for one in tried:
        bound = price_bound(exchange, one) if one.any() else best
        if bound > best:
            best, price = bound, one
        if best == rounded:
            break
    return rounded, price


def _rounded(value: float) -> Fraction:
    """The fraction of a small denominator that a float stands for."""
    for most in _DENOMINATORS:
        near = Fraction(value).limit_denominator(most)
        if abs(float(near) - value) <= _CLOSE * value:
            return near
    return Fraction(value)


def _whole(shares: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Integers that prices may stand for: multiples of one of the smallest, and finer ones."""
    positive = np.unique(shares[shares > _LEAST_PRICE * shares.max(initial=0)].round(12))
    found = [
        np.rint(shares / least * factor).astype(np.int64)
        for least in positive[:3]
        if least > 0
        for factor in _FACTORS
    ]
    return [one for one in (*found, as_prices(shares)) if one.any()]
