"""Classic algorithms: known steps and loads, a replay in sets for every N, shapes of the trees."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from inspect import signature
from math import ceil, log2

import numpy as np
import pytest
from classic_samples import CASES, SIZES, everything, messages_of

from ocs_codesign.schedules.classic.algorithm import OPTIONS as KNOWN_OPTIONS
from ocs_codesign.schedules.classic.grids import INNER, themis_orders
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.classic.trees import double_tree_parents
from ocs_codesign.verification.messages import check_messages

POWERS_OF_TWO = ("recursive-doubling", "swing", "swing-multiport", "bine")


def made_for(name, collective, **options):
    """The messages for all sizes that the algorithm takes, with those sizes."""
    for ranks in SIZES:
        try:
            yield ranks, CLASSIC[name].messages(collective, ranks, **options)
        except ValueError:
            continue


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_known_cases(case):
    made = messages_of(case)
    assert check_messages(made) is None
    pairs = np.unique(np.stack([made.step, made.source, made.target]), axis=1)
    assert (made.num_steps, pairs.shape[1]) == (case["steps"], case["messages"])
    assert str(made.item_size) == case["item_size_of_M"]
    assert str(made.item_shards) == str(1 / Fraction(case["chunks_per_shard"]))
    assert len(made.step) * made.item_size == Fraction(case["total_sent_of_M"])
    assert [str(load) for load in made.one_port_loads()] == case["one_port_load"]


@pytest.mark.parametrize(("name", "collective"), everything())
def test_every_algorithm_delivers(name, collective):
    """With every number of ranks that it takes, primes too: the others are known."""
    took = set()
    for ranks, made in made_for(name, collective):
        assert check_messages(made) is None, ranks
        assert (made.num_ranks, made.collective.name) == (ranks, collective)
        took.add(ranks)
    refused = set(SIZES) - took
    if name in POWERS_OF_TWO and (name, collective) != ("swing", "allreduce"):  # which folds
        assert refused == {ranks for ranks in SIZES if ranks & (ranks - 1)}
    else:
        assert refused == {r for r in SIZES if r % 2 and name == "neighbour-exchange"}


@pytest.mark.parametrize("name", CLASSIC)
def test_options_are_the_parameters_of_the_makers(name):
    room, taken = "ocs_codesign.schedules.classic", []
    for maker in CLASSIC[name].makers.values():
        module, function = maker.split(".")
        parameters = signature(getattr(import_module(f"{room}.{module}"), function)).parameters
        first, *options = parameters.values()
        assert first.name == "num_ranks"
        assert all(option.default is not option.empty for option in options)
        taken += [option.name for option in options]
    assert set(taken) == set(CLASSIC[name].options)
    assert set(CLASSIC[name].options) <= set(KNOWN_OPTIONS)


OPTIONS = [
    ("pat", "allgather", {"aggregation": 1}, 1),
    ("pat", "allgather", {"aggregation": 2}, 3),
    ("pat", "reduce-scatter", {"aggregation": 4}, 5),
    ("bruck", "allgather", {"radix": 3}, 1),
    ("bruck", "allgather", {"radix": 7}, 1),
    ("bruck", "alltoall", {"radix": 3}, 1),
    ("binomial", "allreduce", {"root": 4}, 5),
    ("bine", "broadcast", {"root": 5}, 8),
    ("linear", "reduce", {"root": 2}, 3),
    ("scatter-allgather", "broadcast", {"root": 3}, 4),
    ("chain", "reduce", {"root": 4, "chunks": 7}, 5),
    ("parameter-server", "allreduce", {"server": 4}, 5),
    ("double-binary-tree", "allreduce", {"chunks_per_tree": 1}, 1),
    ("two-level", "allreduce", {"group_size": 3}, 3),
    ("two-level", "allreduce", {"groups": 3}, 3),
    ("recursive-doubling", "reduce-scatter", {"first": "near"}, 1),
    ("swing", "allreduce", {"first": "near"}, 1),
]


@pytest.mark.parametrize(("name", "collective", "options", "least"), OPTIONS)
def test_options(name, collective, options, least):
    took = []
    for ranks, made in made_for(name, collective, **options):
        assert check_messages(made) is None, ranks
        took.append(ranks)
    assert took[0] == least


@pytest.mark.parametrize("dims", [(4, 2), (3, 5), (2, 3, 4), (1, 7), (2, 2, 2, 2)])
def test_grids(dims):
    ranks = int(np.prod(dims))
    for order in (None, tuple(range(len(dims)))[::-1]):
        for inner in INNER:
            made = CLASSIC["bucket"].messages(
                "allreduce", ranks, dims=dims, order=order, inner=inner
            )
            assert check_messages(made) is None
        made = CLASSIC["grid"].messages("alltoall", ranks, dims=dims, order=order)
        assert check_messages(made) is None
        crossed = [side for side in dims if side > 1]
        assert made.num_steps == len(crossed)
        shards = sum(Fraction(side - 1, side) for side in crossed)
        assert sum(made.one_port_loads()) == shards * ranks
    names = ("bucket-multiport", "themis") + ("swing-multiport",) * (ranks in (8, 16))
    for name in names:
        assert check_messages(CLASSIC[name].messages("allreduce", ranks, dims=dims)) is None
    few = CLASSIC["bucket-multiport"].messages("allgather", ranks, dims=dims, parts=1)
    assert few == CLASSIC["bucket"].messages("allgather", ranks, dims=dims)


def one_port(name, collective, ranks, **options):
    """Steps and t_b on a switch."""
    made = CLASSIC[name].messages(collective, ranks, **options)
    return made.num_steps, sum(made.one_port_loads(), Fraction(0)) / ranks


def depth(ranks, radix=2):
    return next(k for k in range(64) if radix**k >= ranks)


@pytest.mark.parametrize("ranks", SIZES[1:])
def test_costs_on_a_switch(ranks):
    """Steps and t_b of the table of closed forms."""
    least, k = Fraction(ranks - 1, ranks), depth(ranks)
    for name in ("shift", "ring", "ring-halves"):
        assert one_port(name, "allgather", ranks) == (ranks - 1, least)
    assert one_port("ring-outward", "allgather", ranks) == (ranks // 2, least)
    assert one_port("direct", "alltoall", ranks) == (1, least)
    assert one_port("xor", "alltoall", ranks) == (ranks - 1, least)
    assert one_port("ring-relay", "alltoall", ranks) == (ranks - 1, Fraction(ranks - 1, 2))
    assert one_port("linear", "broadcast", ranks) == (ranks - 1, ranks - 1)
    assert one_port("binomial", "broadcast", ranks) == (k, k)
    assert one_port("parameter-server", "allreduce", ranks) == (2, 2 * (ranks - 1))
    assert one_port("chain", "broadcast", ranks, chunks=5) == (ranks + 3, Fraction(ranks + 3, 5))
    for radix in (2, 3, 4):
        assert one_port("bruck", "allgather", ranks, radix=radix) == (depth(ranks, radix), least)
        digits = sum(
            a // radix**j % radix > 0 for a in range(ranks) for j in range(depth(ranks, radix))
        )
        shifted = depth(ranks, radix), Fraction(digits, ranks)
        assert one_port("bruck", "alltoall", ranks, radix=radix) == shifted
    whole = 1 << k
    for width in (1 << a for a in range(k)):
        steps = depth(width) + whole // width - 1
        made = CLASSIC["pat"].messages("allgather", ranks, aggregation=width)
        assert made.num_steps <= steps
        if whole == ranks:
            assert one_port("pat", "allgather", ranks, aggregation=width) == (steps, least)
    power = 1 << int(log2(ranks))
    extra = 2 * (power < ranks)
    assert one_port("recursive-doubling-full", "allreduce", ranks) == (
        int(log2(power)) + extra,
        int(log2(power)) + extra,
    )
    assert one_port("rabenseifner", "allreduce", ranks) == (
        2 * int(log2(power)) + extra,
        2 * Fraction(power - 1, power) + extra,
    )
    if ranks % 2 == 0:
        assert one_port("neighbour-exchange", "allgather", ranks) == (ranks // 2, least)
        assert one_port("two-level", "allreduce", ranks, groups=2) == (
            4 if ranks > 2 else 2,
            2 * (ranks // 2 - 1) + 1,
        )
    if power == ranks:
        assert one_port("scatter-allgather", "broadcast", ranks) == (k + ranks - 1, 2 * least)
        for name in ("recursive-doubling", "swing"):
            assert one_port(name, "allgather", ranks) == (k, least)
            assert one_port(name, "allreduce", ranks) == (2 * k, 2 * least)
        assert one_port("swing-full", "allreduce", ranks) == (k, k)
        assert one_port("bruck", "alltoall", ranks) == (k, Fraction(k, 2))


def test_double_binary_tree():
    first, second = double_tree_parents(8)
    assert first.tolist()[1:] == [2, 4, 2, 0, 6, 4, 6]
    assert second.tolist()[:7] == [1, 3, 1, 7, 5, 3, 5]
    for ranks in range(2, 34):
        trees = double_tree_parents(ranks)
        inside = [set(parent[parent >= 0].tolist()) for parent in trees]
        roots = {int(np.flatnonzero(parent < 0)[0]) for parent in trees}
        assert inside[0] & inside[1] <= roots
        for parent in trees:
            assert np.bincount(parent[parent >= 0]).max() <= 2
            assert (parent < 0).sum() == 1
        for chunks in (1, 5) if ranks < 18 else ():
            made = CLASSIC["double-binary-tree"].messages(
                "allreduce", ranks, chunks_per_tree=chunks
            )
            assert made.num_steps == 2 * ceil(log2(ranks)) + chunks - 1


def test_bine_tree():
    made = CLASSIC["bine"].messages("broadcast", 8)
    sends = list(zip(made.step.tolist(), made.source.tolist(), made.target.tolist(), strict=True))
    assert sends == [(1, 0, 3), (2, 0, 7), (2, 3, 4), (3, 0, 1), (3, 3, 2), (3, 4, 5), (3, 7, 6)]
    far = abs(made.target - made.source)
    assert np.minimum(far, 8 - far).tolist() == [3, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("dims", "bandwidths", "chunks", "fixed", "greedy"),
    [
        ((4, 4), (1, 1), 4, "3/4", "15/32"),
        ((4, 8), (1, 1), 4, "3/4", "35/64"),
        ((4, 4), (2, 1), 8, "3/4", "21/32"),
        ((2, 8, 8), (4, 2, 1), 16, "7/8", "91/128"),
    ],
)
def test_themis(dims, bandwidths, chunks, fixed, greedy):
    size, loads = Fraction(1), []
    for side, bandwidth in zip(dims, bandwidths, strict=True):
        loads.append(size * (side - 1) / side * bandwidths[0] / bandwidth)
        size /= side
    assert str(max(loads)) == fixed
    orders, loads = themis_orders(dims, bandwidths, chunks)
    assert str(max(loads)) == greedy
    assert orders[0] == tuple(range(len(dims)))
    ranks = int(np.prod(dims))
    sent = CLASSIC["themis"].messages(
        "allgather", ranks, dims=dims, bandwidths=bandwidths, chunks=chunks
    )
    assert check_messages(sent) is None
    stride = 1
    for axis in reversed(range(len(dims))):
        crosses = sent.source // stride % dims[axis] != sent.target // stride % dims[axis]
        from_one = Fraction(int((crosses & (sent.source == 0)).sum()), sent.num_items)
        assert from_one * bandwidths[0] / bandwidths[axis] == loads[axis]
        stride *= dims[axis]


@pytest.mark.parametrize(
    ("name", "collective", "ranks", "options", "says"),
    [
        ("ring", "alltoall", 4, {}, "ring makes allgather, reduce-scatter, allreduce, not"),
        ("ring", "allgather", 0, {}, "0 ranks: classic algorithms are made for 1 to 4096"),
        ("ring", "allgather", 4, {"radix": 2}, "ring has no option radix: it has none"),
        ("bruck", "alltoall", 4, {"r": 2}, "no option r: its options are radix"),
        ("bruck", "alltoall", 4, {"radix": 1}, "radix is 1: it is at least 2"),
        ("bruck", "allgather", 4, {"radix": 1}, "radix is 1: it is at least 2"),
        ("swing", "allgather", 6, {}, "6 ranks: Swing takes a power of two"),
        ("swing", "allgather", 8, {"first": "middle"}, "first is 'middle'"),
        ("neighbour-exchange", "allgather", 5, {}, "takes an even number"),
        ("pat", "allgather", 8, {"aggregation": 3}, "aggregation is 3: for 8 ranks"),
        ("pat", "allgather", 8, {"aggregation": 8}, "a power of two, at most 4"),
        ("bucket", "allgather", 8, {"dims": (3, 3)}, r"dims are \[3, 3\]: their product must be 8"),
        ("bucket", "allgather", 8, {"dims": (4, 2), "order": (0, 0)}, r"order is \[0, 0\]"),
        ("bucket", "allgather", 8, {"inner": "best"}, "inner is 'best'"),
        ("bucket-multiport", "allgather", 8, {"parts": 3}, "parts is 3"),
        ("swing-multiport", "allgather", 6, {"dims": (2, 3)}, "powers of two"),
        ("two-level", "allreduce", 8, {"groups": 3}, "together they must be 8 ranks"),
        ("chain", "broadcast", 8, {"chunks": 2**30}, "sends: at most 33,554,432 are made"),
        ("bucket-multiport", "allgather", 4096, {"dims": (64, 64)}, "67,108,864 sends: at most"),
        ("two-level", "allreduce", 8, {"groups": 0}, "0 groups of 8: together they must be 8"),
        ("two-level", "allreduce", 8, {"group_size": 0}, "together they must be 8 ranks"),
        ("chain", "broadcast", 8, {"chunks": 0}, "0 chunks"),
        ("linear", "broadcast", 8, {"root": 8}, "root is 8: ranks are 0 to 7"),
        ("parameter-server", "allreduce", 8, {"server": -1}, "root is -1"),
        ("themis", "allgather", 8, {"bandwidths": (1, 1)}, "one of at least 1 a dimension"),
        ("themis", "allgather", 8, {"chunks": 0}, "0 chunks"),
    ],
)
def test_what_is_refused(name, collective, ranks, options, says):
    with pytest.raises(ValueError, match=says):
        CLASSIC[name].messages(collective, ranks, **options)
