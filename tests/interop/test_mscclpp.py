"""MSCCL++ plans: the golden file, round trips, the order of threads, and what is refused."""

from __future__ import annotations

import copy
import json

import pytest
from folders import DATA
from msccl_samples import ALLGATHER, ALLREDUCE, REDUCE_SCATTER, plans

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.networks.builders import as_network
from ocs_codesign.graphs.text import parse
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.lowering.raising import raised
from ocs_codesign.interop.msccl.write import export_mscclpp
from ocs_codesign.interop.mscclpp import blocks as mscclpp_blocks
from ocs_codesign.interop.mscclpp.programs import parse_mscclpp, read_mscclpp
from ocs_codesign.interop.mscclpp.write import plan_of, write_mscclpp
from ocs_codesign.interop.registry import Export
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.verification.rank_programs import check_program

GOLDEN = DATA / "golden" / "ring4.mscclpp.json"


def ring(ranks, collective=ALLGATHER):
    return lower(parse(f"UniRing(1, {ranks})").expansion_schedule(collective), in_place=True)


def blocks_of(plan):
    return [block for gpu in plan["gpus"] for block in gpu["threadblocks"]]


def read(plan):
    return parse_mscclpp(json.dumps(plan).encode(), "plan")


def test_the_ring_of_four_is_the_golden_plan():
    """But for the largest message: offsets of 32 bits hold none of 2^64 bytes."""
    golden = json.loads(GOLDEN.read_text())
    plan = plan_of(ring(4), "ring4")
    assert plan.pop("max_message_size") == 2**32
    assert golden.pop("max_message_size") == 2**64 - 1
    assert plan == golden


def test_the_golden_plan_is_accepted_and_raised_to_the_ring():
    program = read_mscclpp(GOLDEN)
    assert check_program(program).ok
    plan = parse("UniRing(1, 4)").expansion_schedule(ALLGATHER)
    assert raised(program).synchronous_cost() == plan.synchronous_cost()


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    "make", [pytest.param(make, id=name) for name, make in plans() if "broadcast" not in name]
)
def test_what_is_written_is_accepted_and_costs_the_same(make, in_place):
    plan = make()
    is_in_place = in_place and plan.collective != Collective.ALLTOALL  # which never is
    program = lower(plan, in_place=is_in_place)
    again = parse_mscclpp(write_mscclpp(program, "sample").encode(), "sample.json")
    assert check_program(again).ok
    assert again.collective == program.collective
    try:
        cost = raised(program).synchronous_cost()
    except ValueError:  # parts of a sum that are sent twice are no schedule
        return
    assert raised(again).synchronous_cost() == cost


@pytest.mark.parametrize(
    ("recipe", "collective"),
    [("UniRing(1, 64)", ALLREDUCE), ("Torus((8, 8))", REDUCE_SCATTER), ("Complete(64)", ALLGATHER)],
)
@pytest.mark.slow
def test_limits_hold_up_to_64_ranks(recipe, collective):
    program = lower(parse(recipe).expansion_schedule(collective), in_place=True)
    plan = plan_of(program, "large")
    for block in blocks_of(plan):
        assert len(block["ops"]) <= 64
        assert sum(len(channels["channel_ids"]) for channels in block["channels"]) <= 16
        for op in block["ops"]:
            assert len(op.get("channel_ids", ())) <= 8
            assert len(op.get("src_buff", ())) <= 8
            assert op.get("barrier_id", 0) < 16
    assert check_program(read(plan)).ok


def test_a_long_ring_needs_blocks_but_no_barriers():
    plan = plan_of(ring(30), "ring")
    assert {len(gpu["threadblocks"]) for gpu in plan["gpus"]} == {3}
    assert max(len(block["ops"]) for block in blocks_of(plan)) <= 64
    assert not any(op["name"] == "barrier" for block in blocks_of(plan) for op in block["ops"])
    assert check_program(read(plan)).ok


def test_every_nop_that_orders_data_is_needed():
    """Without it there is a race; only what nothing follows may be left out."""
    golden = json.loads(GOLDEN.read_text())
    ops = golden["gpus"][0]["threadblocks"][0]["ops"]
    nops = [at for at, op in enumerate(ops) if op["name"] == "nop"]
    verdicts = []
    for at in nops:
        plan = copy.deepcopy(golden)
        del plan["gpus"][0]["threadblocks"][0]["ops"][at]
        verdicts.append(check_program(read(plan)).ok)
    # The first comes after relaxed waits, which order the use of buffers by several calls, and the
    # last before the end.
    assert verdicts == [True, *[False] * (len(nops) - 2), True]


def test_a_relaxed_signal_orders_no_data():
    plan = json.loads(GOLDEN.read_text())
    ops = plan["gpus"][0]["threadblocks"][0]["ops"]
    signal = next(op for op in ops if op["name"] == "signal")
    signal["name"] = "rlxsignal"
    verdict = check_program(read(plan))
    assert not verdict.ok
    assert "nothing orders" in verdict.witness.rule


def test_barriers_and_semaphores_order_blocks():
    """The ring's second send, in a block of its own, waits for the block that received."""

    def split(join):
        plan = json.loads(GOLDEN.read_text())
        gpu = plan["gpus"][0]
        first = gpu["threadblocks"][0]
        second = {**copy.deepcopy(first), "id": 1}
        ops = first["ops"]
        release, acquire = join
        first["ops"] = [*ops[:8], *release]
        second["ops"] = [*acquire, *ops[8:]]
        gpu["threadblocks"] = [first, second]
        gpu["semaphores"] = [{"init_value": 0}]
        return read(plan)

    barrier = {"name": "barrier", "barrier_id": 3, "num_threadblocks": 2}
    semaphores = [{"name": name, "semaphore_ids": [0]} for name in ("sem_release", "sem_acquire")]
    nop = {"name": "nop"}
    assert check_program(split(([barrier], [barrier]))).ok
    assert check_program(split(([semaphores[0]], [semaphores[1], nop]))).ok
    assert not check_program(split(([], []))).ok
    assert not check_program(split(([semaphores[0]], [semaphores[1]]))).ok
    assert not check_program(split(([semaphores[0]], [nop]))).ok
    with pytest.raises(ValueError, match="barrier 3 is for 2 threadblocks, but 1 use it"):
        split(([barrier], []))


@pytest.mark.parametrize("name", ["rre", "get"])
def test_reading_from_peers_is_read(name):
    """Two ranks: each reads what the other has, after a signal, and signals that it has read."""
    gpus = []
    for rank in (0, 1):
        there, here = {"buffer_id": 0, "size": 1}, {"type": "i", "size": 1}
        if name == "rre":
            shard = rank
            data = {
                "name": "rre",
                "channel_type": "memory",
                "src_buff": [{**here, "index": shard}, {**there, "index": shard}],
                "dst_buff": [{"type": "i", "index": shard, "size": 1}],
            }
        else:
            shard = 1 - rank
            data = {
                "name": "get",
                "channel_type": "memory",
                "src_buff": [{**there, "index": shard}],
                "dst_buff": [{"type": "o", "index": shard, "size": 1}],
            }
        tell = [
            {"name": way, "channel_ids": [0], "channel_type": "memory"}
            for way in ("signal", "wait")
        ]
        nop = {"name": "nop"}
        block = {
            "id": 0,
            "channels": [{"channel_type": "memory", "channel_ids": [0]}],
            "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0]}],
            "ops": [*tell, nop, data, nop, *tell],
        }
        buffer = "i" if name == "rre" else "o"
        gpus.append(
            {
                "id": rank,
                "input_chunks": 2 if name == "rre" else 1,
                "output_chunks": 1 if name == "rre" else 2,
                "scratch_chunks": 0,
                "channels": [{"channel_type": "memory", "connected_to": [1 - rank]}],
                "remote_buffers": [
                    {"rank": 1 - rank, "type": buffer, "access_channel_types": ["memory"]}
                ],
                "threadblocks": [block],
            }
        )
    plan = {
        "name": "x",
        "collective": "reducescatter" if name == "rre" else "allgather",
        "protocol": "Simple",
        "inplace": True,
        "gpus": gpus,
    }
    assert check_program(read(plan)).ok
    del gpus[0]["threadblocks"][0]["ops"][2]
    assert check_program(read(plan)).ok  # nothing wrote what is read before the signal


def test_a_copy_of_chunks_onto_themselves_does_nothing():
    plan = json.loads(GOLDEN.read_text())
    chunks = [{"type": "o", "index": 0, "size": 1}]
    ops = plan["gpus"][0]["threadblocks"][0]["ops"]
    ops.insert(3, {"name": "copy", "src_buff": chunks, "dst_buff": chunks})
    assert check_program(read(plan)).ok


def test_messages_of_a_step_share_a_signal():
    plan = plan_of(lower(CLASSIC["bruck"].messages("alltoall", 8)), "x")
    ops = [op for block in blocks_of(plan) for op in block["ops"]]
    puts = sum(len(op["src_buff"]) for op in ops if op["name"] == "put")
    assert puts > 2 * sum(op["name"] == "signal" for op in ops)


def test_many_barriers_are_of_generations_of_blocks(monkeypatch):
    """Steps that all cross between links: more barriers than a block of 28 has operations."""
    monkeypatch.setattr(mscclpp_blocks, "MAX_OPERATIONS", 28)
    plan = parse("DirectedCirculant(16, (1, 2))").expansion_schedule(ALLREDUCE)
    written = plan_of(lower(plan, in_place=True), "x")
    ids = {
        op["barrier_id"]
        for block in blocks_of(written)
        for op in block["ops"]
        if "barrier_id" in op
    }
    assert {0, 1, 2} <= ids
    assert max(len(block["ops"]) for block in blocks_of(written)) <= 28
    again = read(written)
    assert check_program(again).ok
    assert raised(again).synchronous_cost() == plan.synchronous_cost()


@pytest.mark.slow
def test_what_needs_too_many_channels_is_refused_with_its_link():
    plan = parse("DirectedCirculant(100, (1, 2))").expansion_schedule(ALLREDUCE)
    with pytest.raises(
        ValueError, match=r"link \d+ -> \d+: threadblock \d+ would have \d+ channels"
    ):
        write_mscclpp(lower(plan, in_place=True), "x")


@pytest.mark.parametrize("collective", [Collective("broadcast", 0), Collective("scatter", 1)])
def test_collectives_without_a_word_are_refused(collective):
    from ocs_codesign.core.plans import RankProgram

    program = RankProgram(collective, 4, 1, False, [0] * 4, {"rank": []})
    with pytest.raises(ValueError, match=f"no word for {collective.name}"):
        write_mscclpp(program, "x")


def edited(*path_and_value):
    *path, value = path_and_value

    def edit(plan):
        at = plan
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return edit


BLOCK = ("gpus", 0, "threadblocks", 0)
EDITS = [
    (edited("protocol", "LL"), "protocol is 'LL': only plans of Simple are read"),
    (edited("collective", "scatter"), "collective is 'scatter'"),
    (edited("inplace", 1), "inplace is 1"),
    (edited("gpus", {}), "gpus is {}"),
    (edited("gpus", []), "no gpus"),
    (edited("gpus", 0, "id", 2), "gpu 0: id is 2|gpu 0: its id is 2"),
    (edited("gpus", 0, "output_chunks", 0), "must be above 0"),
    (edited("gpus", 0, "output_chunks", 5), "5 chunks are no multiple of 4 ranks"),
    (edited("gpus", 1, "output_chunks", 5), "gpu 1: 1 and 5 chunks"),
    (edited("gpus", 0, "scratch_chunks", -1), "gpu 0: scratch_chunks is -1"),
    (edited("gpus", 0, "channels", 0, "connected_to", [1, 4]), "connected_to names 4, of 4"),
    (edited("gpus", 0, "channels", 0, "connected_to", [0]), "names the gpu itself"),
    (edited("gpus", 0, "remote_buffers", 0, "type", "x"), "type is 'x'"),
    (edited(*BLOCK, "id", 1), "threadblock 0: its id is 1"),
    (edited(*BLOCK, "channels", 0, "channel_ids", [2]), "channel_ids names 2, of 2"),
    (edited(*BLOCK, "channels", 0, "channel_ids", [0] * 17), "17 channels: at most 16"),
    (edited(*BLOCK, "ops", [{"name": "nop"}] * 65), "65 operations, at most 64 are loaded"),
    (edited(*BLOCK, "ops", 0, "channel_ids", [5]), r"op 0 \(rlxsignal\): channel_ids names 5"),
    (edited(*BLOCK, "ops", 0, "channel_ids", [0] * 9), "9 channel_ids: at most 8"),
    (edited(*BLOCK, "ops", 0, "channel_type", "port"), "only memory channels are read"),
    (edited(*BLOCK, "ops", 3, "name", "a\nb"), r"op 3 \('a\\nb'\): this operation is not read"),
    (edited(*BLOCK, "ops", 3, "name", "ppkt"), r"op 3 \(ppkt\): this operation is not read"),
    (edited(*BLOCK, "ops", 3, "name", "pws"), "it is of port channels"),
    (edited(*BLOCK, "ops", 3, "src_buff", []), "not what it takes"),
    (edited(*BLOCK, "ops", 3, "src_buff", 0, "size", 2), "of 2 and of 1 chunks"),
    (edited(*BLOCK, "ops", 3, "src_buff", 0, "index", 2**30), "index is 1073741824"),
    (edited(*BLOCK, "ops", 3, "dst_buff", 0, "buffer_id", 1), "buffer_id names 1, of 1"),
    (edited(*BLOCK, "ops", 3, "tbg_info", {}), "groups of threadblocks"),
    (edited(*BLOCK, "ops", 0, "nop"), "must be a map"),
]


@pytest.mark.parametrize(("edit", "rule"), EDITS)
def test_errors_say_where_and_why(edit, rule):
    plan = json.loads(GOLDEN.read_text())
    edit(plan)
    with pytest.raises(ValueError, match=rf"^plan: .*({rule})") as error:
        read(plan)
    assert "\n" not in str(error.value)


def test_exports_are_read_again(tmp_path):
    plan = parse("Torus((3, 3))").expansion_schedule(ALLGATHER)
    export = Export("torus", plan, lower(plan), as_network(plan.topology))
    ((name, content),) = export_mscclpp(export).items()
    (tmp_path / name).write_bytes(content)
    again = raised(read_mscclpp(tmp_path / name))
    assert again.synchronous_cost() == plan.synchronous_cost()
