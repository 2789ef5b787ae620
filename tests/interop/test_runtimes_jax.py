"""Collectives of JAX over schedules, on virtual devices: bits, rounds, links and derivatives."""

from __future__ import annotations

import os
import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from runtime_samples import CASES, bits, inputs_of, known_traffic, planned, uneven_inputs_of
from torch_ranks import plans

from ocs_codesign.core.collective import Collective
from ocs_codesign.graphs.text import parse
from ocs_codesign.interop.runtimes.tables import tables_of
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.schedules.registry import Task, made_by

pytestmark = [pytest.mark.runtimes, pytest.mark.filterwarnings("ignore")]
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=11")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

METHODS = {
    "allgather": "all_gather",
    "reduce-scatter": "psum_scatter",
    "allreduce": "psum",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
}


def spread(function, ranks, axes=("x",), shape=None, *, check_vma=True):
    """A function of a device's row as one of all rows, compiled."""
    import jax

    from ocs_codesign.interop.runtimes.jax_collectives import mesh

    where = mesh(ranks, "x", jax.devices()[:ranks])
    if shape is not None:
        where = jax.sharding.Mesh(where.devices.reshape(shape), axes)
    spec = jax.sharding.PartitionSpec(axes)
    return jax.jit(
        jax.shard_map(
            lambda row: function(row[0])[None],
            mesh=where,
            in_specs=spec,
            out_specs=spec,
            check_vma=check_vma,
        )
    )


def sent_pairs(compiled):
    """The pairs of every permutation of a program, and whether it has other collectives."""
    text = compiled.as_text()
    other = re.findall(r" (all-reduce|all-gather|all-to-all|reduce-scatter)\(", text)
    lists = re.findall(r" collective-permute\(.*?source_target_pairs=\{(.*?)\}\}", text)
    return [set(re.findall(r"\{(\d+),(\d+)", f"{each}}}")) for each in lists], other


@pytest.mark.parametrize("some", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", CASES)
def test_known_bits_and_rounds(name, some):
    import jax

    import ocs_codesign.jax

    plan, facts = CASES[name]["plan"], CASES[name]["facts"]
    collectives = ocs_codesign.jax.collective(planned(plan))
    method, root = getattr(collectives, METHODS[plan["collective"]]), plan.get("root")
    if root is not None:
        method = partial(method, root=root)
    for run in CASES[name]["runs"]:
        if some and (run["elements"], run["dtype"]) not in ((7, "int64"), (1000, "float32")):
            continue
        with jax.enable_x64(run["dtype"] == "int64"):
            rows = np.stack(inputs_of(CASES[name], run))
            function = spread(partial(method, axis="x"), plan["num_nodes"])
            compiled = function.lower(rows).compile()
            results = list(np.asarray(compiled(rows)))
            if plan["collective"] == "reduce":
                results = results[root : root + 1]
            wanted = run.get("sha256_16_of_all_ranks") or run["sha256_16_of_results"]
            assert bits(results) == wanted
    pairs, other = sent_pairs(compiled)
    assert (len(pairs), other) == (facts["rounds"], [])
    used = {(str(send[1]), str(send[2])) for send in plan["sends"]}
    assert set().union(*pairs) == used
    assert set(collectives.counts) == {(plan["collective"], "schedule")}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (at % 3 > 0)) for at, name in enumerate(CASES)],
)
def test_steps_in_loops_have_the_same_bits(name, monkeypatch):
    import jax

    import ocs_codesign.jax
    from ocs_codesign.interop.runtimes import jax_collectives

    monkeypatch.setattr(jax_collectives, "UNROLLED_ROUNDS", 0)
    plan, run = CASES[name]["plan"], CASES[name]["runs"][-1]
    method, root = METHODS[plan["collective"]], plan.get("root")
    call = getattr(ocs_codesign.jax.collective(planned(plan)), method)
    call = call if root is None else partial(call, root=root)
    with jax.enable_x64(run["dtype"] == "int64"):
        rows = np.stack(inputs_of(CASES[name], run))
        compiled = spread(partial(call, axis="x"), plan["num_nodes"]).lower(rows).compile()
        results = list(np.asarray(compiled(rows)))
    results = results[root : root + 1] if plan["collective"] == "reduce" else results
    assert bits(results) == (run.get("sha256_16_of_all_ranks") or run["sha256_16_of_results"])
    pairs, other = sent_pairs(compiled)
    tables = tables_of(known_traffic(name), 0)
    assert (len(pairs), other) == (sum(len(each.pairs) for each in tables), [])
    used = {(str(send[1]), str(send[2])) for send in plan["sends"]}
    assert set().union(*pairs) == used


def test_tables_as_operands_have_the_same_bits_in_a_shorter_program():
    """Groups and derivatives, too; what is not sharded is refused."""
    import jax

    import ocs_codesign.jax

    case = CASES["two rings allreduce 6"]
    run = case["runs"][-1]
    collectives = ocs_codesign.jax.collective(planned(case["plan"]))
    tables = collectives.tables(6)
    rows = np.stack(inputs_of(case, run))
    where, spec = ocs_codesign.jax.mesh(6, devices=jax.devices()[:6]), jax.sharding.PartitionSpec

    def lowered(of_tables):
        def called(row, tables):
            return collectives.by(tables).psum(row, "x")

        specs = (spec("x"), of_tables)
        spread = jax.shard_map(called, mesh=where, in_specs=specs, out_specs=spec("x"))
        return jax.jit(spread).lower(rows, tables)

    whole = lowered(spec("x"))
    assert bits(list(np.asarray(whole.compile()(rows, tables)))) == run["sha256_16_of_all_ranks"]
    plain = spread(partial(collectives.psum, axis="x"), 6).lower(rows)
    assert len(whole.as_text()) < 0.8 * len(plain.as_text())
    with pytest.raises(ValueError, match="tables are sharded by the axis"):
        lowered(spec())
    with pytest.raises(ValueError, match="tables are for 4 devices, but the plans are of 6 ranks"):
        collectives.tables(4)


def test_tables_of_groups_are_by_place_and_may_be_differentiated():
    import jax

    import ocs_codesign.jax

    collectives = ocs_codesign.jax.collective(*halves("ring allreduce 5"))
    groups = ((8, 1, 4, 0, 9), (7, 5, 3, 2, 6))
    tables = collectives.tables(10, groups)
    where, spec = ocs_codesign.jax.mesh(10, devices=jax.devices()[:10]), jax.sharding.PartitionSpec
    rows = np.arange(50, dtype=np.float32)

    def gradient(row, tables):
        calls = collectives if tables is None else collectives.by(tables)
        return jax.grad(lambda row: (calls.all_gather(row, "x", None, groups) ** 2).sum())(row)

    found = [
        jax.jit(
            jax.shard_map(
                gradient, mesh=where, in_specs=(spec("x"), spec("x")), out_specs=spec("x")
            )
        )(rows, given)
        for given in (tables, None)
    ]
    assert (np.asarray(found[0]) == np.asarray(found[1])).all()
    assert np.asarray(found[0]).any()


@pytest.mark.long
def test_many_rounds_are_a_short_program(monkeypatch):
    """69 steps of 271 rounds: by themselves 3 MB of text, in a loop 4 permutations."""
    import ocs_codesign.jax
    from ocs_codesign.interop.runtimes import jax_collectives

    task = Task(parse("Torus((3, 3))").topology(), Collective("broadcast", root=0))
    call = partial(ocs_codesign.jax.collective(made_by("forest", task)).broadcast, axis="x")
    rows = np.random.default_rng(0).normal(size=(9, 1000)).astype(np.float32)
    texts, permutations = [], []
    for most in (271, 270):
        monkeypatch.setattr(jax_collectives, "UNROLLED_ROUNDS", most)
        compiled = spread(call, 9).lower(rows).compile()
        assert (np.asarray(compiled(rows)) == rows[0]).all()
        texts.append(len(compiled.as_text()))
        permutations.append(len(sent_pairs(compiled)[0]))
    assert permutations == [271, 4]
    assert texts[1] < 0.05 * texts[0]


UNEVEN = [name for name in CASES if "uneven" in CASES[name]]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (at > 1)) for at, name in enumerate(UNEVEN)],
)
def test_uneven_parts_have_the_known_bits(name):
    import jax

    import ocs_codesign.jax

    plan = CASES[name]["plan"]
    method = getattr(ocs_codesign.jax.collective(planned(plan)), METHODS[plan["collective"]])
    for run in CASES[name]["uneven"]:
        items = run["items"]
        own, given = plan["collective"] == "allgather", uneven_inputs_of(CASES[name], run)
        rows = np.ones((len(items), max(map(len, given))), dtype=run["dtype"])  # no part behind
        for row, each in zip(rows, given, strict=True):
            row[: len(each)] = each
        with jax.enable_x64(run["dtype"] == "int64"):
            function = spread(partial(method, axis="x", sizes=items), len(items))
            results = list(np.asarray(function(rows)))
        if not own:
            assert not any(row[size:].any() for row, size in zip(results, items, strict=True))
            results = [row[:size] for row, size in zip(results, items, strict=True)]
        assert bits(results) == run["sha256_16_of_all_ranks"]


@pytest.mark.parametrize("unrolled", [512, pytest.param(0, marks=pytest.mark.long)])
def test_parts_of_unequal_sizes_for_each_other_and_their_derivatives(unrolled, monkeypatch):
    """On both ways exactly; what is behind the rows of a device does not count."""
    import jax

    import ocs_codesign.jax
    from ocs_codesign.interop.runtimes import jax_collectives

    monkeypatch.setattr(jax_collectives, "UNROLLED_ROUNDS", unrolled)
    ours = ocs_codesign.jax.collective(planned(CASES["relay all-to-all 5"]["plan"]))
    theirs = ocs_codesign.jax.collective(*halves("ring allreduce 5"))
    draws = np.random.default_rng(5)
    sizes = draws.integers(0, 4, (5, 5))
    sizes[1] = sizes[:, 3] = 0  # who has nothing, and who gets nothing
    have, get = sizes.sum(1), sizes.sum(0)
    rows = draws.integers(1, 99, (5, have.max(), 3)).astype(np.float32)
    parts = [np.split(row, np.cumsum(size))[:-1] for row, size in zip(rows, sizes, strict=True)]
    scale = draws.integers(1, 99, (get.max(), 3)).astype(np.float32)
    for collectives in (ours, theirs):
        call = partial(collectives.all_to_all, axis="x", sizes=sizes)
        results = np.asarray(spread(call, 5)(rows))
        slopes = spread(jax.grad(lambda row, call=call: (call(row) * scale).sum()), 5)(rows)
        taken = [np.split(scale[:size], np.cumsum(sizes[:, to])) for to, size in enumerate(get)]
        for rank in range(5):
            wanted = np.concatenate([parts[source][rank] for source in range(5)])
            assert (results[rank][: get[rank]] == wanted).all()
            assert not results[rank][get[rank] :].any()
            known = np.concatenate([taken[to][rank] for to in range(5)])
            assert (slopes[rank][: have[rank]] == known).all()
            assert not slopes[rank][have[rank] :].any()
    assert ours.counts.keys() == {("alltoall", "schedule")}
    assert theirs.counts.keys() == {("alltoall", "no page")}
    for wrong, rule in ((sizes[:4], "a table of rows"), (sizes * 2, "a device has at most")):
        with pytest.raises(ValueError, match=rule):
            spread(partial(ours.all_to_all, axis="x", sizes=wrong), 5).lower(rows)


@pytest.mark.parametrize("name", ["ring allreduce 5", "relay all-to-all 5"])
def test_groups_call_by_themselves(name):
    """Two groups whose places are mixed, each with the bits of one alone."""
    import ocs_codesign.jax

    case = CASES[name]
    plan, run = case["plan"], case["runs"][-1]
    groups = ((8, 1, 4, 0, 9), (7, 5, 3, 2, 6))
    rows = np.zeros((10, len(inputs_of(case, run)[0])), dtype=run["dtype"])
    for group in groups:
        rows[list(group)] = inputs_of(case, run)
    collectives = ocs_codesign.jax.collective(planned(plan))
    method = partial(
        getattr(collectives, METHODS[plan["collective"]]), axis="x", axis_index_groups=groups
    )
    compiled = spread(method, 10).lower(rows).compile()
    results = np.asarray(compiled(rows))
    for group in groups:
        assert bits(list(results[list(group)])) == run["sha256_16_of_all_ranks"]
    pairs, other = sent_pairs(compiled)
    assert (len(pairs), other) == (case["facts"]["rounds"], [])
    with pytest.raises(ValueError, match="of one size and have each of its 10 places once"):
        spread(partial(method, axis_index_groups=groups[:1]), 10).lower(rows)
    two = [(at, at + 1) for at in range(0, 10, 2)]
    with pytest.raises(ValueError, match="groups have 2 devices, but the plans are of 5 ranks"):
        spread(partial(method, axis_index_groups=two), 10).lower(rows)


def halves(name):
    """The reduce-scatter and the allgather that an allreduce of the file is made of."""
    plan = CASES[name]["plan"]
    first = [send for send in plan["sends"] if send[6]]
    last = max(send[0] for send in first)
    second = [[send[0] - last, *send[1:]] for send in plan["sends"] if not send[6]]
    parts = (("reduce-scatter", first), ("allgather", second))
    return [planned(plan | {"collective": each, "sends": sends}) for each, sends in parts]


def test_derivatives_of_rooted_and_uneven_calls_are_those_without_a_page():
    import jax

    import ocs_codesign.jax

    names = [name for name in CASES if CASES[name]["plan"]["num_nodes"] == 6]
    ours = ocs_codesign.jax.collective(
        *(planned(CASES[name]["plan"]) for name in names if "allreduce" not in name), plans(6)[0]
    )
    theirs = ocs_codesign.jax.collective(CLASSIC["bruck"].messages("alltoall", 6))
    draws = np.random.default_rng(3)
    sizes = (2, 0, 3, 1, 3, 1)
    for method, length, options in (
        ("broadcast", 7, {"root": 2}),
        ("reduce", 7, {"root": 2}),
        ("all_gather", 3, {"sizes": sizes}),
        ("psum_scatter", 10, {"sizes": sizes}),
    ):
        rows = draws.normal(size=(6, length, 2)).astype(np.float32)
        scale = draws.normal(size=(40, 2)).astype(np.float32)

        def loss(row, of, method=method, options=options, scale=scale):
            found = getattr(of, method)(row, "x", **options)
            return (found**2 * scale[: len(found)]).sum()

        mine, known = (
            spread(jax.grad(partial(loss, of=each)), 6, check_vma=False)(rows)
            for each in (ours, theirs)
        )
        if method == "all_gather":  # what does not count has no derivative on either way
            mine, known = (
                np.concatenate([row[:size] for row, size in zip(each, sizes, strict=True)])
                for each in (mine, known)
            )
        assert np.allclose(mine, known, rtol=1e-5, atol=1e-6), method
    assert {way for _, way in ours.counts} == {"schedule"}
    assert {way for _, way in theirs.counts} == {"no page"}


@pytest.mark.parametrize("method", ["all_gather", "psum_scatter"])
def test_derivatives_are_those_of_jax_over_links_that_exist(method):
    import jax

    import ocs_codesign.jax

    collectives = ocs_codesign.jax.collective(*halves("ring allreduce 5"))
    ours = partial(getattr(collectives, method), axis="x")
    theirs = partial(getattr(jax.lax, method), axis_name="x", tiled=True)
    rows = np.arange(50, dtype=np.float32).reshape(5, 10)

    def gradient(function):
        return spread(jax.grad(lambda row: (function(row) ** 2).sum()), 5)

    compiled = gradient(ours).lower(rows).compile()
    assert np.allclose(compiled(rows), gradient(theirs)(rows))
    pairs, other = sent_pairs(compiled)
    forward = {(str(rank), str((rank + 1) % 5)) for rank in range(5)}
    assert (set().union(*pairs), other) == (forward, [])


def test_a_model_in_data_and_tensor_parallel_parts():
    """Eight devices: the mean gradient over all, hidden units over half of them."""
    import jax
    import jax.numpy as jnp

    import ocs_codesign.jax

    collectives = ocs_codesign.jax.collective(*plans(4)[:3], plans(8)[2], plans(2)[2])
    draws = np.random.default_rng(0)
    data = draws.normal(size=(8, 3, 6)).astype(np.float32)
    weights = [draws.normal(size=shape).astype(np.float32) for shape in ((6, 8), (8, 6))]

    def losses(psum):
        def loss(first, second, x):
            return ((jnp.tanh(x @ first) @ second - x) ** 2).mean()

        def train(x):
            part = jax.lax.axis_index("model") * 4
            own = [
                jax.lax.dynamic_slice_in_dim(weights[0], part, 4, 1),
                jax.lax.dynamic_slice_in_dim(weights[1], part, 4, 0),
            ]
            found = []
            for _ in range(4):
                value, gradients = jax.value_and_grad(loss, (0, 1))(*own, x)
                own = [
                    each - 0.05 * psum(gradient, "data") / 4
                    for each, gradient in zip(own, gradients, strict=True)
                ]
                found.append(psum(value[None], ("data", "model"))[0])
            return jnp.stack(found)

        # Checked, JAX sums the gradient of what it knows to be the same everywhere by itself, too.
        return np.asarray(spread(train, 8, ("data", "model"), (4, 2), check_vma=False)(data))

    assert np.allclose(losses(collectives.psum), losses(jax.lax.psum), rtol=1e-5)
    assert collectives.counts == {("allreduce", "schedule"): 12}


def test_what_has_no_page_is_jax_and_what_does_not_fit_is_refused(caplog):
    import jax

    import ocs_codesign.jax

    collectives = ocs_codesign.jax.collective(plans(4)[0])
    rows = np.ones((4, 4), dtype=np.float32)
    _, other = sent_pairs(spread(partial(collectives.psum, axis="x"), 4).lower(rows).compile())
    assert other == ["all-reduce"]
    assert collectives.counts == {("allreduce", "no page"): 1}
    spread(partial(collectives.psum, axis="x"), 4).lower(rows[:, :2])
    assert collectives.counts == {("allreduce", "no page"): 2}
    said = [each.getMessage() for each in caplog.records if each.name == "ocs_codesign"]
    assert said == ["allreduce of 4 devices by jax.lax: no page"]
    with pytest.raises(ValueError, match="axis 'x' has 8 devices, but the plans are of 4 ranks"):
        spread(partial(collectives.all_gather, axis="x"), 8)(np.ones((8, 2)))
    with pytest.raises(ValueError, match="shared by 4 devices: it must divide"):
        spread(partial(collectives.all_to_all, axis="x"), 4)(np.ones((4, 3)))
    with pytest.raises(ValueError, match="11 devices for 4 nodes"):
        ocs_codesign.jax.mesh(4)
    assert len(jax.devices()) == 11


def test_devices_follow_their_coordinates():
    from ocs_codesign.interop.runtimes.jax_collectives import in_order

    numbered = [(0, 0), (1, 0), (0, 1), (1, 1)]
    fakes = [SimpleNamespace(coords=(*each[::-1], 0), core_on_chip=0) for each in numbered]
    assert [each.coords[:2] for each in in_order(fakes)] == numbered
    assert in_order(numbered) == numbered
