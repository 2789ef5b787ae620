"""Loops over labels: what planes hold, with the polyhedron of the times that they can have reached.

A polyhedron is the convex hull of its points and all that is later. A point (e, l_0, l_1, ...) says
that the last step ended at e and that plane j has been free since l_j. Points are rows of a float
array; -1 of them are too many. All is plain Python, for small searches, and ``compiled`` the same
as machine code: both do the same to the last bit.
"""

from __future__ import annotations

from functools import cache

import numpy as np

EPS, _TINY = 1e-12, 1e-13
_MOST_LABELS, _MOST_POINTS = 2**18, 2**22
_SLOTS = 4093
"""Lists of labels, by a hash of what their planes hold."""
budget = [12_000]
"""What is tried in a second at most before machine code is made, which takes ten seconds once."""


def below(points, first, last, skip, target, width, combined):
    """Whether a point (but ``skip``) is nowhere later than ``target``, or a convex combination is.

    Phase 1 of the simplex method on the weights: width + 1 rows, so a few pivots.
    """
    least = np.full(width, np.inf)
    for one in range(first, last):
        latest = -np.inf
        for at in range(width if one != skip else 0):
            least[at] = min(least[at], points[one, at])
            latest = max(latest, points[one, at] - target[at])
        if one != skip and latest <= EPS:
            return True
    for at in range(width):
        combined &= least[at] <= target[at] + EPS
    if not combined:
        return False
    rows, count = width + 1, last - first
    columns = count + rows
    table = np.zeros((rows + 1, columns + 1))
    basis = np.empty(rows, dtype=np.int64)
    for row in range(rows):
        basis[row] = count + row
        table[row, count + row] = 1.0
        table[row, columns] = 1.0 if row == width else EPS
    for column in range(count):
        if first + column != skip:
            for row in range(width):
                table[row, column] = points[first + column, row] - target[row]
            table[width, column] = 1.0
            table[rows, column] = -1.0
    table[rows, columns] = -1.0
    for turn in range(400):
        if -table[rows, columns] < EPS or not pivoted(table, basis, turn > 50):
            break
    return -table[rows, columns] < EPS


def pivoted(table, basis, first_one):
    """Whether a column could enter the basis; the best one or, against cycles, the first one."""
    rows, columns = len(basis), table.shape[1] - 1
    entering, least = -1, -1e-12
    for column in range(columns - 1):  # the last one is the artificial weight
        if table[rows, column] < least:
            entering, least = column, table[rows, column]
            if first_one:
                break
    leaving, ratio = -1, np.inf
    for row in range(rows if entering >= 0 else 0):
        if table[row, entering] > _TINY:
            limit = table[row, columns] / table[row, entering]
            if limit < ratio or (limit == ratio and basis[row] < basis[leaving]):
                leaving, ratio = row, limit
    if leaving < 0:
        return False
    pivot = table[leaving, entering]
    for column in range(columns + 1):
        table[leaving, column] /= pivot
    for row in range(rows + 1):
        factor = table[row, entering]
        if row != leaving and factor != 0.0:
            for column in range(columns + 1):
                table[row, column] -= factor * table[leaving, column]
    basis[leaving] = entering
    return True


def beats(one, first, last, other, begin, end, width):
    """Whether everything in the other label is no earlier than something in this one."""
    for at in range(begin, end):
        if not below(one, first, last, -1, other[at], width, last - first > 1):
            return False
    return True


def copied(points, first, last, out, begin):
    """Copy rows to where they begin in ``out``."""
    for row in range(last - first):
        for at in range(min(points.shape[1], out.shape[1])):
            out[begin + row, at] = points[first + row, at]


def pruned(points, count, width):
    """Keep, in front, the points that are no later than combinations of others; their number."""
    for combined in (False, True):
        at = 0
        while at < count:
            if below(points, 0, count, at, points[at], width, combined and count > 2):
                count -= 1
                copied(points, count, count + 1, points, at)
            else:
                at += 1
    return count


def lifted(points, count, column, floor, shift):
    """Raise ``column`` to at least ``floor`` column + shift in the whole polyhedron.

    Where an edge crosses the floor it gets a point, so that the hull stays exact.
    """
    before = count
    for one in range(before):
        above = points[one, column] - points[one, floor] - shift
        if above <= EPS:
            continue
        for other in range(before):
            under = points[other, column] - points[other, floor] - shift
            if under < -EPS:
                if count == points.shape[0]:
                    return -1
                weight = above / (above - under)
                for at in range(points.shape[1]):
                    start = points[one, at]
                    points[count, at] = start + weight * (points[other, at] - start)
                count += 1
    for one in range(count):
        points[one, column] = max(points[one, column], points[one, floor] + shift)
    return count


def shared(points, count, serves, waits, step, corners):
    """The polyhedron after planes shared the bytes of a step; see ``polyhedron``.

    In corner c, the first c planes that serve leave as soon as their latency is over, and the
    others together.
    """
    planes = len(waits)
    if count * corners > points.shape[0]:
        return -1
    for one in range(count - 1, -1, -1):
        begin = points[one, 0]
        number, work = 0, step[0]
        for plane in range(planes):
            number += serves[plane]
            if waits[plane] > 0.0:
                work += points[one, 1 + planes + plane] - begin
        for corner in range(corners - 1, -1, -1):
            row, rank = one * corners + corner, 0
            end = begin + step[1] + work / (number - corner)
            for plane in range(planes):
                since, done = points[one, 1 + plane], 0.0
                if waits[plane] > 0.0:
                    done = points[one, 1 + planes + plane] + step[1]
                if serves[plane]:
                    since = begin + step[1] if rank < corner else end
                    rank += 1
                points[row, 1 + plane], points[row, 1 + planes + plane] = since, done
            points[row, 0] = end
    return count * corners


def polyhedron(points, first, last, serves, waits, step, longest, early, strict, out):
    """The pruned polyhedron after a step that the planes of ``serves`` serve, in ``out``: its size.

    ``waits[j]`` is the dead time of plane j before it can serve, 0 if it does not. Columns of
    ``out`` after 1 + planes are when a plane can begin, then when it can be done at least, if it
    has to arrive first. Planes that serve are interchangeable afterwards: those that leave early
    are the first ones. If not ``early``, none does. If ``strict``, a plane leaves after it has
    arrived; otherwise it only arrives before the step ends, which is as good where all changes take
    the same time: what then leaves before it arrives goes as well without that step. Who has been
    free for longer than any later change takes counts as free since that long.
    """
    planes, count, number = len(waits), last - first, 0
    width = 1 + planes
    copied(points, first, last, out, 0)
    for plane in range(planes):
        number += serves[plane]
        for one in range(count):
            out[one, width + plane] = out[one, 1 + plane] + waits[plane]
        if waits[plane] > 0.0:
            count = lifted(out, count, width + plane, 0, 0.0)
    count = shared(out, count, serves, waits, step, number if early else 1)
    for plane in range(planes):
        if waits[plane] > 0.0:
            count = pruned(out, count, width + planes)
            if strict:
                count = lifted(out, count, 1 + plane, width + plane, 0.0)
            count = lifted(out, count, 0, (1 if strict else width) + plane, 0.0)
            for one in range(count):
                out[one, width + plane] = 0.0
    count = pruned(out, count, width)
    for plane in range(planes):
        before = count
        count = lifted(out, count, 1 + plane, 0, -longest[plane])
        if count > before:
            count = pruned(out, count, width)
    return pruned(out, count, width)


def choices(codes, points, first, last, dead, swaps, out):
    """Sets of planes worth trying, as bits; of planes that hold the same only some.

    Who arrives first is who left first (where dead times allow the swap), who goes on is who left
    last; neighbours in the order of codes are compared if all points agree on who left first.
    """
    found = 1
    out[0] = 0
    for plane in range(len(codes)):
        goes_on = dead[codes[plane]] == 0.0
        ordered = plane > 0 and codes[plane] == codes[plane - 1]
        ordered &= goes_on or swaps[codes[plane]]
        for one in range(first, last if ordered else first):
            ordered &= points[one, plane] <= points[one, plane + 1] + EPS
        for at in range(found):
            last_serves = plane > 0 and (out[at] >> (plane - 1)) & 1 == 1
            if ordered and goes_on and last_serves:
                out[at] |= 1 << plane
            elif not ordered or goes_on or last_serves:
                out[found] = out[at] | (1 << plane)
                found += 1
    return found


def in_order(codes, points, count, order):
    """Sort the planes of a label by code, then by when they left; ``order`` follows."""
    for one in range(len(codes)):
        order[one] = one
        at = one
        while at > 0 and (
            codes[at - 1] > codes[at]
            or (codes[at - 1] == codes[at] and points[0, at] > points[0, at + 1] + EPS)
        ):
            codes[at - 1], codes[at] = codes[at], codes[at - 1]
            order[at - 1], order[at] = order[at], order[at - 1]
            for row in range(count):
                points[row, at], points[row, at + 1] = points[row, at + 1], points[row, at]
            at -= 1


def is_beaten(label, held, out, count, codes, points, facts):
    """Whether a label of the list beats a new one; those that the new one beats are marked."""
    width = 1 + len(held)
    while label >= 0:
        begin, end = facts[label, 0], facts[label, 1]
        alike = facts[label, 5] == 1
        for plane in range(len(held)):
            alike &= codes[label, plane] == held[plane]
        if alike and beats(points, begin, end, out, 0, count, width):
            return True
        if alike and beats(out, 0, count, points, begin, end, width):
            facts[label, 5] = 0
        label = facts[label, 4]
    return False


def extended(codes, first, points, dead, longest, swaps, renamed, step, early, strict, room):
    """All labels after one more step that are worth keeping.

    ``codes`` (labels x planes) say what planes hold, label i has the rows first[i] to first[i + 1]
    of ``points``. By code: ``dead`` time into this step, ``longest`` dead time afterwards (by new
    code), ``swaps`` (whether who left first may arrive first), and the code that it has from now on
    (``renamed``). ``step`` is (send, latency, the code of those that serve). A polyhedron of more
    than ``room`` points is kept in part: nobody leaves early, and what comes before is its best
    point.

    Returns codes, points, orders of planes and facts of labels, some beaten by others: columns are
    begin and end of points, parent, mask, next in its list, whether it is unbeaten. Before them is
    when the first label ended of which parts are lost.
    """
    labels, planes = codes.shape
    most = min(labels << planes, _MOST_LABELS)
    new_codes, orders = np.empty((most, planes), np.int64), np.empty((most, planes), np.int64)
    facts = np.empty((most, 6), np.int64)
    new_points = np.empty((min(most * room, _MOST_POINTS), 1 + planes))
    out, masks = np.empty((16 * room + 64, 1 + 2 * planes)), np.empty(1 << planes, np.int64)
    held, order = np.empty(planes, np.int64), np.empty(planes, np.int64)
    waits, rests, serves = np.empty(planes), np.empty(planes), np.empty(planes, np.bool_)
    heads = np.full(_SLOTS, -1)
    made, used, lost = 0, 0, np.inf
    for label in range(labels):
        begin, end = first[label], first[label + 1]
        best = begin + points[begin:end, 0].argmin()
        for choice in range(1, choices(codes[label], points, begin, end, dead, swaps, masks)):
            slot = 0
            for plane in range(planes):
                serves[plane] = (masks[choice] >> plane) & 1 == 1
                waits[plane] = dead[codes[label, plane]] if serves[plane] else 0.0
                held[plane] = renamed[step[2] if serves[plane] else codes[label, plane]]
                rests[plane] = longest[held[plane]]
            size = polyhedron(points, begin, end, serves, waits, step, rests, early, strict, out)
            if size < 0 or size > room:
                lost = min(lost, points[best, 0])
                size = polyhedron(
                    points, best, best + 1, serves, waits, step, rests, False, True, out
                )
            if size <= 0:
                continue
            if made == most or used + size > len(new_points):
                lost = min(lost, points[best, 0])
                continue
            in_order(held, out, size, order)
            for plane in range(planes):
                slot = (31 * slot + held[plane] + 1) % _SLOTS
            if is_beaten(heads[slot], held, out, size, new_codes, new_points, facts):
                continue
            copied(held.reshape(1, planes), 0, 1, new_codes, made)
            copied(order.reshape(1, planes), 0, 1, orders, made)
            copied(out, 0, size, new_points, used)
            facts[made, 0], facts[made, 1] = used, used + size
            facts[made, 2], facts[made, 3] = label, masks[choice]
            facts[made, 4], facts[made, 5] = heads[slot], 1
            heads[slot] = made
            made += 1
            used += size
    return lost, new_codes[:made], new_points[:used], orders[:made], facts[:made]


def tiers(work, *given):
    """``extended``: as plain Python at first, as machine code once a process has tried much.

    ``work`` is how much a call tries: sets of planes times points to the third power.
    """
    budget[0] -= work
    return (extended if budget[0] >= 0 else compiled())(*given)


@cache
def compiled():
    """``extended`` as machine code."""
    from numba import njit
    from numba.extending import register_jitable

    for function in (
        *(below, pivoted, beats, copied, pruned, lifted, shared, polyhedron),
        *(choices, in_order, is_beaten),
    ):
        register_jitable(function)
    return njit(cache=True)(extended)
