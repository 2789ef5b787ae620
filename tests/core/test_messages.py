"""Messages: what they are, what is none, and that the replay finds every fault in them."""

from __future__ import annotations

import numpy as np
import pytest
from classic_samples import everything

from ocs_codesign.core.collective import Collective
from ocs_codesign.core.schedule import SUMMING, Messages
from ocs_codesign.schedules.classic.registry import CLASSIC
from ocs_codesign.verification.messages import check_messages

SWAP = (2, Collective.ALLGATHER, 2, [1, 1], [1, 0], [0, 1], [1, 0], [False, False])


def changed(messages, **columns):
    """The same with other columns."""
    names = ("step", "source", "target", "item", "adds")
    now = dict(zip(names, messages.columns(), strict=True)) | columns
    head = messages.num_ranks, messages.collective, messages.num_items
    return Messages(*head, *(now[name] for name in names))


def without(messages, row):
    columns = [np.delete(column, row) for column in messages.columns()]
    return Messages(messages.num_ranks, messages.collective, messages.num_items, *columns)


def test_columns_are_sorted_and_fixed():
    swap = Messages(*SWAP)
    assert (swap.source.tolist(), swap.item.tolist(), swap.adds.tolist()) == (
        [0, 1],
        [0, 1],
        [0, 0],
    )
    assert {column.dtype.name for column in swap.columns()} == {"int32", "bool"}
    assert swap == Messages(*SWAP[:3], *([c[1], c[0]] for c in SWAP[3:]))
    assert swap != changed(swap, item=[1, 0])
    assert not swap.step.flags.writeable
    assert repr(swap) == "Messages(allgather of 2 ranks, 2 sends in 1 steps, 2 items)"
    alone = Messages(1, Collective.ALLREDUCE, 3, [], [], [], [], [])
    assert (alone.num_steps, alone.one_port_loads()) == (0, ())
    assert check_messages(alone) is None


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        (0, 0, "num_ranks is 0"),
        (0, 1.5, "num_ranks is 1.5: it must be a whole number"),
        (1, Collective("allgather", sizes=(1, 2)), "no sizes, no groups"),
        (1, Collective("broadcast", root=2), "root is 2"),
        (2, 3, "num_items is 3: allgather of 2 ranks has a multiple of 2 items"),
        (3, [0, 1], "send 0: step is 0: it is from 1"),
        (4, [0, 2], "send 1: source is 2: it is from 0 to 1"),
        (5, [1, 1], "step 1: the send of item 1 goes from rank 1 to itself"),
        (6, [2, 0], "send 0: item is 2: it is from 0 to 1"),
        (6, [1.0, 0.0], "column item must be a one-dimensional array of integers"),
        (7, [False], "equally long"),
        (7, [False, True], "step 1: the send of item 0 adds, but allgather has no sums"),
    ],
)
def test_what_is_no_messages(at, value, says):
    with pytest.raises(ValueError, match=says):
        Messages(*SWAP[:at], value, *SWAP[at + 1 :])


def test_the_same_send_twice():
    with pytest.raises(ValueError, match="step 1: the send of item 0 from rank 0 to 1 is there tw"):
        Messages(2, Collective.ALLGATHER, 2, [1, 1], [0, 0], [1, 1], [0, 0], [False] * 2)


def delivers(made):
    """A replay in plain sets: the ranks whose data every rank has of every item."""
    kind, ranks, items = made.collective.name, range(made.num_ranks), range(made.num_items)
    everyone = frozenset(ranks)
    if kind == "alltoall":
        cut = made.num_items // made.num_ranks**2
        ends = [divmod(item // cut, made.num_ranks) for item in items]
        at = [source for source, _ in ends]
        for step in range(1, made.num_steps + 1):
            rows = np.flatnonzero(made.step == step).tolist()
            moved = [(int(made.item[r]), int(made.source[r]), int(made.target[r])) for r in rows]
            if len({item for item, _, _ in moved}) < len(moved):
                return False
            if any(at[item] != source for item, source, _ in moved):
                return False
            for item, _, target in moved:
                at[item] = target
        return at == [target for _, target in ends]
    owner = [item * made.num_ranks // made.num_items for item in items]
    sums = kind in ("reduce-scatter", "allreduce", "reduce")
    root = [made.collective.root if kind in ("broadcast", "reduce") else o for o in owner]
    whole = [everyone if sums else frozenset([root[item]]) for item in items]
    has = {
        (r, i): frozenset([r]) if sums or root[i] == r else frozenset()
        for r in ranks
        for i in items
    }
    for step in range(1, made.num_steps + 1):
        before = dict(has)
        copied, added = set(), set()
        for row in np.flatnonzero(made.step == step).tolist():
            item, source, target = (int(c[row]) for c in (made.item, made.source, made.target))
            sent = before[source, item]
            if made.adds[row]:
                if not sent or has[target, item] & sent or (target, item) in copied:
                    return False
                has[target, item] |= sent
                added.add((target, item))
            else:
                if sent != whole[item] or (target, item) in added:
                    return False
                has[target, item] = sent
                copied.add((target, item))
    wants = {"reduce-scatter": owner, "reduce": root}.get(kind)
    return all(
        has[rank, item] == whole[item]
        for rank in ranks
        for item in items
        if wants is None or wants[item] == rank
    )


def mutants(made, row, generator):
    """A send less, with the other operation, to another rank, of another item, in another step."""
    yield without(made, row)
    if made.collective.name in SUMMING:
        flipped = made.adds.copy()
        flipped[row] = not flipped[row]
        yield changed(made, adds=flipped)
    limits = {"target": (0, made.num_ranks), "item": (0, made.num_items)}
    limits["step"] = (1, made.num_steps + 1)
    for name, (least, end) in limits.items():
        column = getattr(made, name).copy()
        column[row] = generator.integers(least, end)
        try:
            yield changed(made, **{name: column})
        except ValueError:  # a send to itself, or one that is there already
            continue


@pytest.mark.parametrize(("name", "collective"), everything())
def test_faults_are_found(name, collective):
    """All those, and only those, that a replay in plain sets finds too."""
    made = CLASSIC[name].messages(collective, 8)
    assert delivers(made)
    generator = np.random.default_rng(len(name))
    wrong = 0
    for row in generator.choice(len(made.step), min(3, len(made.step)), replace=False).tolist():
        for mutant in mutants(made, row, generator):
            is_right = delivers(mutant)
            assert (check_messages(mutant) is None) == is_right, (row, mutant)
            wrong += not is_right
        assert name == "scatter-allgather" or check_messages(without(made, row)) is not None
    assert wrong >= 1


def test_witnesses():
    ring = CLASSIC["ring"].messages("allreduce", 4)
    late = int(np.flatnonzero(ring.step == 4)[0])
    rule = "a part of the sum would replace another"
    assert str(check_messages(without(ring, late))) == f"row 16, step 5, chunk 0, node 1: {rule}"
    more = [
        np.append(column, value)
        for column, value in zip(ring.columns(), (1, 0, 2, 3, True), strict=True)
    ]
    twice = check_messages(Messages(4, Collective.ALLREDUCE, 4, *more))
    assert "a contribution would be counted twice" in str(twice)
    both = Messages(2, Collective.ALLREDUCE, 1, [1, 1], [0, 1], [1, 0], [0, 0], [True, True])
    assert check_messages(both) is None
    rule = "the sum of this item never gets to the rank"
    assert str(check_messages(without(both, 1))) == f"chunk 0, node 0: {rule}"


def test_scatters_and_gathers():
    """Two items a rank, those of rank 2 over rank 0 or 1; the root keeps its own."""
    scatter = Collective("scatter", root=1)
    rows = ([1, 1, 1, 1, 2, 2], [1] * 4 + [0] * 2, [0] * 4 + [2] * 2, [0, 1, 4, 5, 4, 5])
    made = Messages(3, scatter, 6, *rows, [False] * 6)
    assert check_messages(made) is None
    assert str(check_messages(without(made, 5))) == "chunk 5, node 2: the rank never gets this item"
    early = check_messages(changed(made, step=[1] * 6))
    assert "the item is not at the sender, or is sent twice" in str(early)
    step, source, target, item = rows
    back = ([3 - at for at in step], target, source, item)
    gathered = Messages(3, Collective("gather", root=1), 6, *back, [False] * 6)
    assert check_messages(gathered) is None
    assert check_messages(without(gathered, 0)) is not None
    with pytest.raises(ValueError, match="num_items is 4: scatter of 3 ranks has a multiple of 3"):
        Messages(3, scatter, 4, [], [], [], [], [])


def test_many_ranks_are_replayed_in_blocks(monkeypatch):
    monkeypatch.setattr("ocs_codesign.verification.messages._BLOCK_WORDS", 256)
    made = CLASSIC["rabenseifner"].messages("allreduce", 70)
    assert check_messages(made) is None
    witness = check_messages(without(made, len(made.step) // 2))
    assert witness is not None
    monkeypatch.undo()
    assert witness == check_messages(without(made, len(made.step) // 2))
