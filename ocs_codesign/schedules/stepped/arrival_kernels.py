"""Loops over arrival steps: loads of cells, moves of single arrivals, the search.

An item s arrives at node v at the end of step ``arrival[s, v]`` over those in-links of ``mask[s,
v]`` whose tails have it before. A cell is a node at a step; ``inside[v, t - 1, W]`` counts the
items that arrive in it and may come over the in-links of W alone, and its load, the largest of
``inside * weight`` over W, is Hall's bound in units of a common denominator of all ``weight``.

Where a symmetry makes nodes alike, s runs over the items of one node an orbit, row s being that of
``home[s]``, and a cell is an orbit, ``cell[v]`` that of a node and ``alike`` its nodes; without one
every node is an orbit of its own.
"""

from __future__ import annotations

MODULUS = 2**31 - 1
_FACTOR = 48271
"""Those of the minimal standard generator: its products fit 64 bits and wrap nowhere."""

VIOLATED, TOTAL, RANDOM, LOGGED, ALL_SETS, SURPLUS = 0, 1, 2, 3, 4, 5
"""Places in ``state``: how many cells are above their target, by how much in all, the generator,
how many moves are in the log, and, where all sets of in-links count, 1 and by how much all of them
are above their targets."""

PATIENCE, MIN_PATIENT = 20, 32
"""Tries in vain, a row, and rows at least, before a profile of targets is given up."""
MOST_FAILURES = 14
"""In a row of every step before the search ends."""
FINEST = 4
"""Of 1,024 parts of a target: what it is lowered by at least, where lowering it has failed."""


def draw(state, below):
    """A number from 0 to below - 1."""
    state[RANDOM] = state[RANDOM] * _FACTOR % MODULUS
    return state[RANDOM] % below


def fill(columns):
    """Masks, counts and loads of the arrivals from nothing."""
    arrival, mask, near, inside = columns.arrival, columns.mask, columns.near, columns.inside
    nodes, width = near.shape
    columns.inside[:] = 0
    for source in range(len(arrival)):
        for node in range(nodes):
            allowed = 0
            for column in range(width):
                tail = near[node, column]
                if tail >= 0 and arrival[source, tail] < arrival[source, node]:
                    allowed |= 1 << column
            mask[source, node] = allowed
            if columns.home[source] != node:
                count(inside[columns.cell[node], arrival[source, node] - 1], allowed, 1)
    for cell in range(len(inside)):
        for step in range(inside.shape[1]):
            columns.load[cell, step] = load_of(inside[cell, step], columns.weight[cell])


def count(inside, allowed, number):
    """Adds items of a mask to all sets of in-links that hold it."""
    whole = len(inside) - 1
    links = allowed
    inside[links] += number
    while links != whole:
        links = (links + 1) | allowed
        inside[links] += number


def load_of(inside, weight):
    """The largest product of a cell: what its busiest link carries at least."""
    best = 0
    for links in range(1, len(inside)):
        value = inside[links] * weight[links]
        if value > best:
            best = value
    return best


def worst_of(inside, weight):
    """The in-links that make a cell's load."""
    best, worst = 0, 0
    for links in range(1, len(inside)):
        value = inside[links] * weight[links]
        if value > best:
            best, worst = value, links
    return worst


def surplus_of(inside, weight, most):
    """What all sets of in-links carry above a target, whichever is the busiest."""
    surplus = 0
    for links in range(1, len(inside)):
        surplus += max(0, inside[links] * weight[links] - most)
    return surplus


def renew(columns, orbit, step):
    """Reckon one cell's load again, and what it is above its target by."""
    state, place, violated = columns.state, columns.place, columns.violated
    cell = orbit * len(columns.target) + step
    before = columns.load[orbit, step]
    inside, weight = columns.inside[orbit, step], columns.weight[orbit]
    now = load_of(inside, weight)
    columns.load[orbit, step] = now
    most = columns.target[step]
    if state[ALL_SETS]:
        surplus = surplus_of(inside, weight, most) if now > most else 0
        state[SURPLUS] += surplus - columns.surplus[orbit, step]
        columns.surplus[orbit, step] = surplus
    state[TOTAL] += max(0, now - most) - max(0, before - most)
    if now > most and place[cell] < 0:
        place[cell] = state[VIOLATED]
        violated[state[VIOLATED]] = cell
        state[VIOLATED] += 1
    elif now <= most and place[cell] >= 0:
        state[VIOLATED] -= 1
        last = violated[state[VIOLATED]]
        violated[place[cell]] = last
        place[last] = place[cell]
        place[cell] = -1


def list_violated(columns):
    """The cells above their targets, all anew."""
    state, place, violated = columns.state, columns.place, columns.violated
    nodes, steps = columns.load.shape
    state[VIOLATED], state[TOTAL], state[SURPLUS] = 0, 0, 0
    for node in range(nodes):
        for step in range(steps):
            cell, most = node * steps + step, columns.target[step]
            above = columns.load[node, step] - most
            place[cell] = -1
            if state[ALL_SETS]:
                inside, weight = columns.inside[node, step], columns.weight[node]
                columns.surplus[node, step] = surplus_of(inside, weight, most) if above > 0 else 0
                state[SURPLUS] += columns.surplus[node, step]
            if above > 0:
                place[cell] = state[VIOLATED]
                violated[state[VIOLATED]] = cell
                state[VIOLATED] += 1
                state[TOTAL] += above


def may_arrive(columns, source, node, step):
    """Whether an item may come to a node at another step: all can still have it in time."""
    arrival, near = columns.arrival, columns.near
    if columns.home[source] == node or step < 1 or step > len(columns.target):
        return False
    row = arrival[source]
    comes = False
    for column in range(near.shape[1]):
        tail = near[node, column]
        comes = comes or (tail >= 0 and row[tail] < step)
    if not comes:
        return False
    for place in range(columns.out_start[node], columns.out_start[node + 1]):
        head = columns.out_head[place]
        alone = 1 << columns.out_column[place]
        if row[node] < row[head] <= step and columns.mask[source, head] == alone:
            return False
    return True


def arrive(columns, source, node, step):
    """Move one arrival; masks, counts, loads and violations follow."""
    row, masks, near = columns.arrival[source], columns.mask[source], columns.near
    inside, cell, before = columns.inside, columns.cell, row[node]
    allowed = 0
    for column in range(near.shape[1]):
        tail = near[node, column]
        if tail >= 0 and row[tail] < step:
            allowed |= 1 << column
    count(inside[cell[node], before - 1], masks[node], -1)
    count(inside[cell[node], step - 1], allowed, 1)
    row[node] = step
    masks[node] = allowed
    renew(columns, cell[node], before - 1)
    renew(columns, cell[node], step - 1)
    for place in range(columns.out_start[node], columns.out_start[node + 1]):
        head = columns.out_head[place]
        due = row[head]
        if head != columns.home[source] and (before < due) != (step < due):
            count(inside[cell[head], due - 1], masks[head], -1)
            masks[head] ^= 1 << columns.out_column[place]
            count(inside[cell[head], due - 1], masks[head], 1)
            renew(columns, cell[head], due - 1)


def member(columns, orbit, step, links):
    """An item and its node, of those that arrive at a cell over these in-links alone.

    The first from a random place on; -1 and -1 if there is none.
    """
    arrival, mask, alike = columns.arrival, columns.mask, columns.alike
    sources, size = len(arrival), alike.shape[1]
    source, place = divmod(draw(columns.state, sources * size), size)
    for _ in range(sources * size):
        place += 1
        if place >= size:
            place = 0
            source = source + 1 if source + 1 < sources else 0
        node = alike[orbit, place]
        if arrival[source, node] == step and mask[source, node] & ~links == 0:
            return source, node
    return -1, -1


def attempt(columns):
    """Try one move on a random cell above its target; kept if no worse, seldom if only as good.

    Where many sets of in-links of a cell are as busy, as on a tree, no single move lowers its load:
    where all sets count, of moves that leave it those are kept that unload some.
    """
    state, near, log = columns.state, columns.near, columns.log
    cell = columns.violated[draw(state, state[VIOLATED])]
    orbit, step = cell // len(columns.target), cell % len(columns.target) + 1
    links = worst_of(columns.inside[orbit, step - 1], columns.weight[orbit])
    source, node = member(columns, orbit, step, links)
    if source < 0:
        return
    kind = draw(state, 16)
    to = step + 1
    if 8 <= kind < 13:
        to = step - 1
    elif kind == 13:
        to = step + 2
    elif kind > 13:  # bring one of its providers forward
        tail = near[node, draw(state, near.shape[1])]
        if tail < 0 or columns.arrival[source, tail] < step:
            return
        node, to = tail, step - 1
    if not may_arrive(columns, source, node, to):
        return
    total, before = state[TOTAL], columns.arrival[source, node]
    surplus = state[SURPLUS]
    arrive(columns, source, node, to)
    is_as_good = state[TOTAL] == total and not state[SURPLUS] < surplus
    if state[TOTAL] > total or (is_as_good and draw(state, 8)):
        arrive(columns, source, node, before)
    else:
        log[state[LOGGED], 0], log[state[LOGGED], 1] = source, node
        log[state[LOGGED], 2] = before
        state[LOGGED] += 1


def repaired(columns, left):
    """Moves until no cell is above its target; those that are left, and whether none is."""
    state = columns.state
    patience = PATIENCE * max(MIN_PATIENT, len(columns.arrival))
    least, least_surplus, vain = state[TOTAL], state[SURPLUS], 0
    state[LOGGED] = 0
    while state[TOTAL] > 0:
        if left <= 0 or vain > patience or state[LOGGED] >= len(columns.log):
            break
        left -= 1
        attempt(columns)
        if state[TOTAL] * 100 < least * 97 or state[SURPLUS] * 100 < least_surplus * 97:
            least, least_surplus = min(least, state[TOTAL]), min(least_surplus, state[SURPLUS])
            vain = 0
        else:
            vain += 1
    return left, state[TOTAL] == 0


def choose_step(columns, failures):
    """A step in proportion to its target, less often after failures."""
    target = columns.target
    whole = 0
    for step in range(len(target)):
        whole += target[step] * 64 // (1 + failures[step])
    rest = draw(columns.state, max(1, whole))
    for step in range(len(target)):
        rest -= target[step] * 64 // (1 + failures[step])
        if rest < 0:
            return step
    return len(target) - 1


def lower(columns, cut, failures):
    """Lower the target of one step, mostly at the cost of another; the step that was lowered."""
    state, target = columns.state, columns.target
    steps = len(target)
    step = choose_step(columns, failures)
    less = min(target[step], max(1, target[step] * cut[step] >> 10))
    less -= draw(state, less // 2 + 1)
    target[step] -= less
    if steps > 1 and draw(state, 4):
        other = step + 1 if step + 1 < steps and draw(state, 3) else draw(state, steps)
        if other != step:
            target[other] += less // 4 + draw(state, (3 * less + 3) // 4)
    return step


def search(columns, failures, cut, moves, pause, least, first_cut):
    """Lower the sum of targets towards ``least`` by so many moves; returns those that are left.

    Begins and ends with targets that are what the arrivals keep; ``failures`` and ``cut`` are what
    it knows of every step, ``first_cut`` what a step's cut begins with. Returns early, between two
    tries, after ``pause`` moves: where it is taken up again changes nothing.
    """
    target, load, state = columns.target, columns.load, columns.state
    steps = len(target)
    kept = target.copy()
    stop = max(0, moves - pause)
    while moves > stop:
        total = 0
        for step in range(steps):
            total += target[step]
            kept[step] = target[step]
        if total <= least:
            break
        step = lower(columns, cut, failures)
        list_violated(columns)
        moves, succeeded = repaired(columns, moves - 1)
        if succeeded:
            settle(load, target)
            failures[step] = 0
            cut[step] = min(512, cut[step] * 3 // 2)
            continue
        for each in range(steps):
            target[each] = kept[each]
        while state[LOGGED] > 0:
            state[LOGGED] -= 1
            source, node, before = columns.log[state[LOGGED]]
            arrive(columns, source, node, before)
        failures[step] += 1
        cut[step] = max(FINEST, cut[step] // 2)
        if failures[step] > MOST_FAILURES:
            failures[step] = 0
            cut[step] = first_cut
    return moves


def settle(load, target):
    """Targets that are what the fullest cell of every step carries."""
    nodes, steps = load.shape
    for step in range(steps):
        target[step] = 0
        for node in range(nodes):
            if load[node, step] > target[step]:
                target[step] = load[node, step]
