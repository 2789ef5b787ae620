"""MSCCL XML: the golden file, round trips, what is fused and what is refused."""

from __future__ import annotations

import re

import pytest
from folders import DATA
from msccl_samples import ALLGATHER, REDUCE_SCATTER, plans

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.networks.builders import as_network
from ocs_codesign.core.plans import RECEIVE, SCRATCH
from ocs_codesign.graphs.text import parse
from ocs_codesign.interop.lowering.lowering import lower
from ocs_codesign.interop.lowering.raising import raised
from ocs_codesign.interop.msccl.programs import parse_msccl, read_msccl
from ocs_codesign.interop.msccl.read import DIALECTS
from ocs_codesign.interop.msccl.write import export_msccl, export_rccl, read_rccl, write_msccl
from ocs_codesign.interop.registry import Export
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.verification.rank_programs import check_program

GOLDEN = DATA / "golden" / "ring4.msccl.xml"
DEPTH = 2


def ring(ranks, collective=ALLGATHER, **options):
    plan = parse(f"UniRing(1, {ranks})").expansion_schedule(collective)
    return lower(plan, in_place=True, **options)


def test_the_ring_of_four_is_the_golden_file():
    assert write_msccl(ring(4), "ring4") == GOLDEN.read_text()


def test_the_golden_file_is_accepted_and_raised_to_the_ring():
    program = read_msccl(GOLDEN)
    assert check_program(program, fifo_depth=DEPTH).ok
    plan = parse("UniRing(1, 4)").expansion_schedule(ALLGATHER)
    assert raised(program).synchronous_cost() == plan.synchronous_cost()


def all_in_place(in_place):
    return [
        pytest.param(make, in_place, id=f"{name}{' in place' * in_place}")
        for name, make in plans()
        if not (in_place and "alltoall" in name)
    ]


@pytest.mark.parametrize(("make", "in_place"), all_in_place(False) + all_in_place(True))
def test_what_is_written_is_accepted_and_costs_the_same(make, in_place):
    program = lower(make(), in_place=in_place)
    try:
        cost = raised(program).synchronous_cost()
    except ValueError:  # parts of a sum that are sent twice are no schedule
        cost = None
    for dialect in DIALECTS:
        text = write_msccl(program, "sample", dialect=dialect)
        options = {"collective": program.collective, "in_place": in_place, "dialect": dialect}
        again = parse_msccl(text.encode(), "sample.xml", **options)
        assert check_program(again, fifo_depth=DEPTH).ok
        assert again.collective == program.collective
        assert cost is None or raised(again).synchronous_cost() == cost


def test_a_ring_of_sums_is_fused():
    text = write_msccl(ring(6, REDUCE_SCATTER), "ring")
    assert (text.count('"rrcs"'), text.count('"rrc"'), text.count('"s"')) == (6 * 4, 6, 6)
    assert text.count("<tb ") == 6


@pytest.mark.parametrize("proto", ["Simple", "LL", "LL128"])
def test_fused_steps_end_with_fifos_as_deep_as_those_of_the_protocol(proto):
    """Three messages a step on a ring: in one threadblock with depth 2 they would wait for ever."""
    text = write_msccl(lower(CLASSIC["direct"].messages("alltoall", 5)), "x", proto=proto)
    assert check_program(parse_msccl(text.encode(), "x"), fifo_depth=DEPTH).ok


def test_a_step_that_waits_for_room_is_refused():
    step = '<step s="{}" type="{}" srcbuf="o" srcoff="{}" dstbuf="o" dstoff="{}" cnt="1" {}/>'
    rest = 'depid="-1" deps="-1" hasdep="0" '
    gpus = []
    for gpu in (0, 1):
        steps = [step.format(s, "s", gpu * 3 + s, gpu * 3 + s, rest) for s in range(3)]
        steps += [step.format(3 + s, "r", 3 - gpu * 3 + s, 3 - gpu * 3 + s, rest) for s in range(3)]
        block = f'<tb id="0" send="{1 - gpu}" recv="{1 - gpu}" chan="0">{"".join(steps)}</tb>'
        gpus.append(f'<gpu id="{gpu}" i_chunks="0" o_chunks="6" s_chunks="0">{block}</gpu>')
    head = '<algo name="x" proto="{}" nchannels="1" nchunksperloop="6" ngpus="2" coll="allgather"'
    text = head + ' inplace="1">' + "".join(gpus) + "</algo>"
    with pytest.raises(ValueError, match=r"x, gpu 0|x: gpu 0, tb 0, step 2: it waits for ever"):
        parse_msccl(text.format("Simple").encode(), "x")
    assert check_program(parse_msccl(text.format("LL").encode(), "x"), fifo_depth=8).ok


def test_counts_above_71_are_split():
    schedule = parse("UniRing(1, 4)").expansion_schedule(ALLGATHER).with_chunks(100)
    text = write_msccl(lower(schedule, in_place=True), "x")
    assert {int(count) for count in re.findall(r'cnt="(\d+)"', text)} == {71, 29}
    again = raised(parse_msccl(text.encode(), "x"))
    assert again.synchronous_cost() == schedule.synchronous_cost()


def test_long_threadblocks_go_on_on_other_channels():
    program = ring(66)
    wide = write_msccl(program, "x", dialect="msccl")
    long = write_msccl(program, "x", dialect="rccl")
    assert 'nchannels="1"' in wide
    assert 'nchannels="2"' in long
    parse_msccl(long.encode(), "x", dialect="rccl")  # which looks for steps that wait for ever
    with pytest.raises(ValueError, match=r"gpu 0, tb 0 .*: 66 steps, at most 64 are loaded"):
        parse_msccl(wide.encode(), "x", dialect="rccl")


def test_many_links_are_spread_over_channels():
    program = lower(CLASSIC["direct"].messages("alltoall", 40))
    text = write_msccl(program, "x", dialect="rccl")
    assert 'nchannels="2"' in text
    assert check_program(parse_msccl(text.encode(), "x", dialect="rccl"), fifo_depth=2).ok


def test_too_many_threadblocks_are_refused():
    program = lower(CLASSIC["direct"].messages("alltoall", 66))
    with pytest.raises(ValueError, match=r"gpu 0: 65 threadblocks, at most 64 are loaded"):
        write_msccl(program, "x", dialect="rccl")


def test_what_would_need_too_many_channels_names_the_link():
    schedule = parse("UniRing(1, 3)").expansion_schedule(ALLGATHER).with_chunks(71 * 2300)
    with pytest.raises(ValueError, match=r"link \d -> \d would need channel \d+: at most 32"):
        write_msccl(lower(schedule, in_place=True), "x", dialect="rccl")


@pytest.mark.parametrize(
    ("collective", "rule"),
    [
        (Collective("scatter", 0), "no word for scatter"),
        (Collective("allgather", groups=[(0, 1), (2, 3)]), "no word for"),
    ],
)
def test_collectives_without_a_word_are_refused(collective, rule):
    from ocs_codesign.core.plans import RankProgram

    program = RankProgram(collective, 4, 1, False, [0] * 4, {"rank": []})
    with pytest.raises(ValueError, match=rule):
        write_msccl(program, "x")


def test_sums_made_elsewhere_are_read_exactly():
    """rrs, and rrc and rrcs with another place, are made in scratch that the threadblock has."""
    text = write_msccl(ring(4, REDUCE_SCATTER), "x")
    sent = text.replace('type="rrcs"', 'type="rrs"')
    program = parse_msccl(sent.encode(), "x")
    assert check_program(program, fifo_depth=DEPTH).ok
    assert program.scratch.tolist() == [1] * 4
    assert (program.target_buffer[program.kind == RECEIVE] == SCRATCH).all()


def test_each_loader_takes_its_own_words_and_has_all_that_it_needs():
    text = write_msccl(ring(4, REDUCE_SCATTER), "x")
    assert 'coll="reduce_scatter"' in text
    other = write_msccl(ring(4, REDUCE_SCATTER), "x", dialect="rccl")
    assert 'coll="reducescatter"' in other
    assert parse_msccl(text.encode(), "x") == parse_msccl(other.encode(), "x", dialect="rccl")
    for content, dialect, rule in (
        (text, "rccl", "coll is 'reduce_scatter': this loader's word is reducescatter"),
        (other, "msccl", "coll is 'reducescatter': this loader's word is reduce_scatter"),
        *(
            (re.sub(f' {name}="[0-9]*"', "", other), "rccl", f"{name} is missing")
            for name in DIALECTS["rccl"].required
        ),
    ):
        with pytest.raises(ValueError, match=rule):
            parse_msccl(content.encode(), "x", dialect=dialect)


def test_an_allreduce_of_any_number_of_chunks_is_read():
    """Two ranks that swap one chunk and add: its shards are halves of it."""
    step = (
        '<step s="0" type="{}" srcbuf="i" srcoff="0" dstbuf="{}" dstoff="0" cnt="1" depid="-1" '
        'deps="-1" hasdep="0"/>'
    )
    gpus = "".join(
        f'<gpu id="{gpu}" i_chunks="1" o_chunks="1" s_chunks="0">'
        f'<tb id="0" send="{1 - gpu}" recv="-1" chan="0">{step.format("s", "i")}</tb>'
        f'<tb id="1" send="-1" recv="{1 - gpu}" chan="0">{step.format("rrc", "o")}</tb></gpu>'
        for gpu in (0, 1)
    )
    head = '<algo name="x" proto="Simple" nchannels="1" nchunksperloop="1" ngpus="2"'
    text = f'{head} coll="allreduce" inplace="0">{gpus}</algo>'
    program = parse_msccl(text.encode(), "x")
    assert check_program(program, fifo_depth=DEPTH).ok
    assert program.chunks_per_unit == 1
    assert program.count.max() == 2


@pytest.mark.parametrize("collective", [Collective("broadcast", 2), None])
def test_the_root_of_a_broadcast_is_told_or_given(collective):
    program = lower(CLASSIC["binomial"].messages("broadcast", 5))
    text = write_msccl(program, "x")
    options = {} if collective is None else {"collective": collective}
    again = parse_msccl(text.encode(), "x", **options)
    assert again.collective.root == (0 if collective is None else 2)
    assert check_program(again, fifo_depth=DEPTH).ok == (collective is None)


EDITS = [
    ('depid="-1" deps="-1" hasdep="0" /></tb>', 'depid="0" deps="0" hasdep="0" /></tb>', "its own"),
    ('type="rcs"', 'type="ra"', "gpu 0, tb 0, step 1: type is ra: it adds tensors"),
    ('type="rcs"', 'type="send"', "type is 'send': it must be one of s, r, rcs"),
    ('type="rcs"', 'type="nop"', "gpu 0, tb 0, step 1: a nop is there to wait"),
    (' s="1"', ' s="2"', "gpu 0, tb 0, step 1: s is 2"),
    ('srcoff="3"', 'srcoff="-7"', "step 1: srcoff is '-7'"),
    ('cnt="1"', 'cnt="72"', "cnt is 72, at most 71"),
    ('cnt="1"', 'cnt="0"', "cnt is 0"),
    ('dstoff="3"', 'dstoff="4"', r"step 1: dstoff 4 and cnt 1 are outside of the 4 chunks of o"),
    ('send="1"', 'send="0"', "gpu 0, tb 0: send is 0"),
    ('send="1"', 'send="-1"', "type is s, but the tb has no send peer"),
    ('chan="0"', 'chan="1"', "nchannels is 1, but channel 1"),
    ('ngpus="4"', 'ngpus="5"', "ngpus is 5|i_chunks|4 gpus"),
    ('<gpu id="3"', '<gpu id="2"', "a second gpu"),
    ('o_chunks="4"', 'o_chunks="5"', "gpu 0: o_chunks is 5"),
    ('coll="allgather"', 'coll="allgatherv"', "coll is 'allgatherv'"),
    ('proto="Simple"', 'proto="simple"', "proto is 'simple'"),
    ('hasdep="0"', "", "there is no hasdep"),
    ('hasdep="0"', 'hasdep="2"', "hasdep is '2'"),
    ("<algo ", "<!DOCTYPE x [<!ENTITY a 'b'>]><algo ", "document type"),
    ("</algo>", "", "this is not XML"),
    ("<algo ", "<gpu><algo ", "a 'gpu' at the top"),
    ('nchunksperloop="4"', 'nchunksperloop="6"', "chunks"),
    ('depid="-1"', 'depid="3"', "depid is 3, which is no tb"),
]


@pytest.mark.parametrize(("old", "new", "rule"), EDITS)
def test_errors_say_where_and_why(old, new, rule):
    text = GOLDEN.read_text()
    assert old in text
    with pytest.raises(ValueError, match=rf"(?s)^ring\.xml.*({rule})") as error:
        parse_msccl(text.replace(old, new, 1).encode(), "ring.xml")
    assert "\n" not in str(error.value)


def test_exports_are_read_again(tmp_path):
    plan = parse("Torus((3, 3))").expansion_schedule(ALLGATHER)
    export = Export("torus", plan, lower(plan), as_network(plan.topology))
    for write, read in ((export_msccl, read_msccl), (export_rccl, read_rccl)):
        for name, content in write(export).items():
            (tmp_path / name).write_bytes(content)
            assert raised(read(tmp_path / name)).synchronous_cost() == plan.synchronous_cost()
