"""Classes of like ranks written out: as models that write out their ranks, and from profiles."""

import json
from collections import Counter
from fractions import Fraction

import pytest
from test_job_models import MACHINE, MOE, PROCESSOR, SMALL
from test_job_readers import GIVEN, kernel, summed

from ocs_codesign.core.networks.builders import star
from ocs_codesign.faces.cli import main
from ocs_codesign.jobs.files.job_files import load_job
from ocs_codesign.jobs.files.profiler import job_of_profile
from ocs_codesign.jobs.issue import run, steady
from ocs_codesign.jobs.job_draft import JobDraft
from ocs_codesign.jobs.layers import has_groups_side_by_side, with_ranks_alone
from ocs_codesign.jobs.models.building import Parallel, job_of
from ocs_codesign.jobs.on_links import LinkPlans, on_clock, placed, run_on_links
from ocs_codesign.jobs.prices import priced
from ocs_codesign.schedules.simulate.transfers import TimingRules


def rows(graph):
    """What every rank does when, and the groups that do collectives."""
    done = run(graph)
    columns = graph.owner, graph.kind, graph.label, graph.size_bytes, done.start, done.end
    named = zip(*(column.tolist() for column in columns), strict=True)
    groups = zip(graph.group_start[:-1], graph.group_start[1:], strict=True)
    members = {tuple(sorted(graph.group_owner[low:high].tolist())) for low, high in groups}
    return Counter((row[0], row[1], graph.labels[row[2]], *row[3:]) for row in named), members


@pytest.mark.parametrize(
    ("model", "parallel"),
    [
        (SMALL, Parallel(data=4, tensor=2)),
        (SMALL, Parallel(data=2, tensor=2, pipeline=2, microbatches=4)),
        (SMALL, Parallel(data=4, pipeline=2, microbatches=2, zero=3)),
        (MOE, Parallel(data=8, expert=4, tensor=2, zero=1)),
        (MOE, Parallel(data=4, expert=2, pipeline=2, microbatches=2)),
    ],
)
def test_classes_written_out_are_the_model_with_its_ranks_written_out(model, parallel):
    on_ranks = model.on_ranks(parallel)
    classes = job_of(on_ranks, parallel, PROCESSOR)
    known = job_of(on_ranks, parallel, PROCESSOR, ranks_alone=True)
    alone = with_ranks_alone(classes)
    assert alone.num_owners == parallel.num_ranks
    assert not has_groups_side_by_side(alone)
    assert has_groups_side_by_side(classes) == (known.num_owners > 1 and any(
        size < classes.ranks[0] for size in classes.group_size.tolist()
    ))  # fmt: skip
    found, expected = (priced(graph, MACHINE) for graph in (alone, known))
    assert rows(found) == rows(expected)
    assert steady(found).period_s == steady(expected).period_s
    assert with_ranks_alone(alone) is alone


def of_ranks(begin, end, ranks, size=2, **changed):
    told = {"Group size": size, "Process Group Ranks": ranks, **changed}
    return summed(begin, end, **told)


def profile(*events, **changed):
    return {"traceEvents": [kernel(0, 10), *events], **changed}


@pytest.mark.parametrize(
    ("ranks", "size", "world", "groups"),
    [
        ("[0, 2]", 2, 4, {(0, 2), (1, 3)}),
        ([1, 3], 2, 4, {(0, 2), (1, 3)}),
        ("[2, 3]", 2, 6, {(0, 1), (2, 3), (4, 5)}),
        ("[0, 2, ..., 6]", 4, 8, {(0, 2, 4, 6), (1, 3, 5, 7)}),
        ("[0, 1, ...]", 3, 6, {(0, 1, 2), (3, 4, 5)}),
    ],
)
def test_profiles_that_say_their_ranks_are_written_out(ranks, size, world, groups):
    everyone = of_ranks(10, 14, list(range(world)), world)
    value = profile(of_ranks(12, 16, ranks, size), everyone)
    job = with_ranks_alone(job_of_profile(value, ranks_alone=True))
    found = [
        tuple(job.group_owner[job.group_start[at] : job.group_start[at + 1]].tolist())
        for at in range(len(job.group_size))
    ]
    assert set(found) == groups | {tuple(range(world))}


def test_the_number_of_ranks_and_the_steps_are_also_elsewhere():
    starts = {"Global rank start": 1, "Global rank stride": 4}
    value = profile(of_ranks(10, 12, None, 2, **starts), distributedInfo={"world_size": 8})
    job = with_ranks_alone(job_of_profile(value, ranks_alone=True))
    assert job.num_owners == 8
    assert job.group_owner.tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
    alone = job_of_profile(profile(distributedInfo={"world_size": 3}))
    assert alone.ranks.tolist() == [3]


@pytest.mark.parametrize(
    ("event", "more", "rule"),
    [
        (of_ranks(1, 2, "[0, 3, 4]", 3), {}, "a group of 3 of 8 ranks does allreduce"),
        (of_ranks(1, 2, None), {}, "'Process Group Ranks' does not say which"),
        (of_ranks(1, 2, "[0, x]"), {}, "does not say which"),
        (of_ranks(1, 2, "[1, 0]"), {}, "ranks ascend"),
        (of_ranks(1, 2, "[0, 1, 2]"), {}, "a group of 2 ranks: it names 3"),
        (of_ranks(1, 2, "[0, 1]", 3), {}, "a group of 3 ranks: it names 2"),
        (of_ranks(1, 2, "[0, 1, ..., 9]", 3), {}, "of 3 of 10 ranks"),
        (of_ranks(1, 2, f"[0, {2**20}]"), {}, "ranks ascend, from 0 on"),
        (of_ranks(1, 2, "[0, 1]"), {"distributedInfo": {"world_size": 0}}, "world_size is 0"),
        (of_ranks(1, 2, "[0, 3]"), {}, "do not divide the 8 ranks from 0 on"),
        (of_ranks(1, 2, "[1, 2]"), {}, "do not divide the 8 ranks from 0 on"),
    ],
)
def test_groups_that_are_not_known_are_refused(event, more, rule, tmp_path):
    path = tmp_path / "p.json"
    value = profile(event, of_ranks(10, 14, list(range(8)), 8), **more)
    path.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(ValueError, match=rule) as caught:
        load_job(path, GIVEN, ranks_alone=True)
    assert str(caught.value).startswith(str(path))


def test_profiles_run_on_links(tmp_path, capsys):
    path = tmp_path / "p.json"
    value = profile(of_ranks(10, 14, "[0, 2]"), of_ranks(20, 30, [0, 1, 2, 3], 4))
    path.write_text(json.dumps(value), encoding="utf-8")
    job = load_job(path, GIVEN, ranks_alone=True)
    classes = load_job(path, GIVEN)
    assert classes.graph.num_owners == 1
    assert run(classes.graph).total_s == run(job.graph).total_s
    network = star(4, 1)
    graph = on_clock(job.graph, network.tick_s)
    on = placed(graph, network, TimingRules(unit_Bps=Fraction(10**9)), LinkPlans(job.machine))
    done = run_on_links(graph, on)
    # A half of 2000 bytes over two links, each way and twice; then quarters, six times.
    assert done.instance_ticks().tolist() == [2 * 2 * 2000 + 1] * 2 + [6 * 2 * 1000 + 3]
    words = ["--alpha", "0s", "--bandwidth", "1GB/s", "--network", "star(4,1)"]
    assert main(["iterate", str(path), *words, "--book", "UniRing(1,2)"]) == 0
    assert "book of 2 ranks" in capsys.readouterr().out


def test_what_no_ranks_are_known_of_is_refused():
    draft = JobDraft(1, [4])
    draft.collective("allreduce", (0,), 8, {}, num_ranks=2)
    with pytest.raises(ValueError, match="a group of 2 of 4 like ranks: which ones"):
        with_ranks_alone(draft.graph())
    draft = JobDraft(2, [2, 3])
    draft.send(0, 1, 8)
    with pytest.raises(ValueError, match="which rank sends to which is not known"):
        with_ranks_alone(draft.graph())
    draft = JobDraft(2, [2, 3])
    draft.wait(draft.compute(1, 1), draft.compute(0, 1))
    with pytest.raises(ValueError, match="waits for one of a class of other ranks"):
        with_ranks_alone(draft.graph())
    draft = JobDraft(1, [2**25])
    draft.compute(0, 1)
    with pytest.raises(ValueError, match="33,554,432 nodes of all ranks"):
        with_ranks_alone(draft.graph())
