"""Compiled loops over labels: what planes hold with the polyhedron of their times, step by step."""

from __future__ import annotations

import numpy as np
from numba import njit

from ocs_codesign.reconfigure.planes.points_kernels import EPS, beats, lifted, pruned, served


@njit(cache=True)
def choices(codes, label, count, planes, dead, swaps, out):
    """Sets of planes worth trying, as bits; of planes that hold the same only some.

    Who arrives first is who left first (where dead times allow the swap), who goes on is who left
    last; neighbours in the order of codes are compared if all points agree on who left first.
    """
    found = 1
    out[0] = 0
    for plane in range(planes):
        sooner = later = False
        if plane and codes[plane] == codes[plane - 1]:
            sooner = later = True
            for one in range(count):
                sooner &= label[one, plane] <= label[one, plane + 1] + EPS
                later &= label[one, plane] >= label[one, plane + 1] - EPS
        goes_on = dead[plane] == 0.0
        size = found
        for at in range(size):
            mask = out[at]
            last = plane > 0 and (mask >> (plane - 1)) & 1 == 1
            with_it = without = True
            if sooner and goes_on and last:
                without = False
            if sooner and not goes_on and not last and (swaps[plane] or later):
                with_it = False
            if with_it:
                grown = mask | (1 << plane)
                if without:
                    out[found] = grown
                    found += 1
                else:
                    out[at] = grown
            elif not without:
                out[at] = -1
    return found


@njit(cache=True)
def in_order(codes, label, count, order):
    """Sort the planes of a label by code, then by when they left; ``order`` follows."""
    planes = len(codes)
    for one in range(1, planes):
        at = one
        while at > 0 and (
            codes[at - 1] > codes[at]
            or (codes[at - 1] == codes[at] and label[0, at] > label[0, at + 1] + EPS)
        ):
            codes[at - 1], codes[at] = codes[at], codes[at - 1]
            order[at - 1], order[at] = order[at], order[at - 1]
            for row in range(count):
                label[row, at], label[row, at + 1] = label[row, at + 1], label[row, at]
            at -= 1


@njit(cache=True)
def grown(array, size):
    """The array with room for ``size`` rows at least."""
    if size <= array.shape[0]:
        return array
    larger = np.empty((max(size, 2 * array.shape[0]), array.shape[1]), dtype=array.dtype)
    larger[: array.shape[0]] = array
    return larger


@njit(cache=True)
def compacted(codes, points, facts, orders, made):
    """The labels that are alive, one after the other."""
    kept = used = 0
    for label in range(made):
        if facts[label, 5]:
            begin, end = facts[label, 0], facts[label, 1]
            codes[kept], orders[kept] = codes[label], orders[label]
            for at in range(begin, end):
                points[used] = points[at]
                used += 1
            facts[kept, 0] = used - (end - begin)
            facts[kept, 1:4] = facts[label, 1:4]
            kept += 1
    first = np.empty(kept + 1, dtype=np.int64)
    first[:kept] = facts[:kept, 0]
    first[kept] = used
    return (
        codes[:kept].copy(),
        first,
        points[:used].copy(),
        facts[:kept, 2].copy(),
        facts[:kept, 3].copy(),
        orders[:kept].copy(),
    )


@njit(cache=True)
def polyhedron(label, planes, mask, waits, step, longest, cap, early, strict, room, buffer):
    """The pruned polyhedron after a step, in ``buffer``: its size, 0 if too late, -1 if too large.

    Who has been free for longer than any later change takes counts as free since that long.
    """
    width = 1 + planes
    send, latency = step
    count = served(label, len(label), planes, mask, waits, send, latency, early, strict, buffer)
    if count < 0 or buffer[:count, 0].min() > cap:
        return min(count, 0)
    count = pruned(buffer, count, width)
    for plane in range(planes):
        before = count
        count = lifted(buffer, count, 1 + plane, 0, -longest[plane], width)
        if count < 0:
            return -1
        if count > before:
            count = pruned(buffer, count, width)
    count = pruned(buffer, count, width)
    return count if count <= room else -1


@njit(cache=True)
def one_point(label, planes, mask, waits, step, longest, cap, buffer):
    """A part of the polyhedron: nobody leaves early, and what comes before is its best point."""
    best = label[:, 0].argmin()
    return polyhedron(
        label[best : best + 1], planes, mask, waits, step, longest, cap, False, True, 64, buffer
    )


@njit(cache=True)
def is_beaten(key, held, buffer, count, codes, points, facts):
    """Whether a label that is known beats a new one; those that the new one beats are marked."""
    other = key
    width = 1 + len(held)
    while other >= 0:
        begin, end = facts[other, 0], facts[other, 1]
        if facts[other, 5] and (codes[other] == held).all():
            if beats(points[begin:end], end - begin, buffer, count, width):
                return True
            if beats(buffer, count, points[begin:end], end - begin, width):
                facts[other, 5] = 0
        other = facts[other, 4]
    return False


@njit(cache=True)
def extended(
    codes, first, points, dead, longest, swaps, renamed, after, step, cap, early, strict, room
):
    """All labels after one more step that are worth keeping.

    ``codes`` (labels x planes) say what planes hold, label i has the rows first[i] to first[i + 1]
    of ``points``. By code: ``dead`` time into this step, ``longest`` dead time afterwards (by new
    code), ``swaps`` (whether who left first may arrive first), and the code that it has from now on
    (``renamed``); who serves has ``after``. ``step`` is (send, latency). Labels that end after
    ``cap`` are left out, and those that another label beats. A polyhedron of more than ``room``
    points is kept in part. Returns the labels, as codes, first, points, parent, mask and order of
    planes, and before them when the first label ended of which parts are lost.
    """
    planes = codes.shape[1]
    buffer = np.empty((16 * room + 64, 1 + 2 * planes))
    masks = np.empty(1 << planes, dtype=np.int64)
    held, order = np.empty(planes, dtype=np.int64), np.empty(planes, dtype=np.int64)
    waits, rests = np.empty(planes), np.empty(planes)
    may_swap = np.empty(planes, dtype=np.bool_)
    new_codes = np.empty((256, planes), dtype=np.int64)
    orders = np.empty((256, planes), dtype=np.int64)
    # Columns: begin and end of points, parent, mask, next label of the same hash, alive.
    facts = np.empty((256, 6), dtype=np.int64)
    new_points = np.empty((1024, 1 + planes))
    head = {np.int64(-1): np.int64(-1)}
    made = used = 0
    lost = np.inf
    for label in range(codes.shape[0]):
        mine = points[first[label] : first[label + 1]]
        for plane in range(planes):
            waits[plane] = dead[codes[label, plane]]
            may_swap[plane] = swaps[codes[label, plane]]
        for choice in range(choices(codes[label], mine, len(mine), planes, waits, may_swap, masks)):
            mask = masks[choice]
            if mask <= 0:
                continue
            key = np.int64(0)
            for plane in range(planes):
                order[plane] = plane
                serves = (mask >> plane) & 1 == 1
                held[plane] = renamed[after if serves else codes[label, plane]]
                rests[plane] = longest[held[plane]]
            count = polyhedron(
                mine, planes, mask, waits, step, rests, cap, early, strict, room, buffer
            )
            if count < 0:
                lost = min(lost, mine[:, 0].min())
                count = one_point(mine, planes, mask, waits, step, rests, cap, buffer)
            if count == 0:
                continue
            in_order(held, buffer, count, order)
            for plane in range(planes):
                key = key * np.int64(1000003) + held[plane] + 1
            key &= np.int64(0x7FFFFFFFFFFFFFFF)
            start = head[key] if key in head else np.int64(-1)
            if is_beaten(start, held, buffer, count, new_codes, new_points, facts):
                continue
            new_codes, orders = grown(new_codes, made + 1), grown(orders, made + 1)
            facts, new_points = grown(facts, made + 1), grown(new_points, used + count)
            new_codes[made], orders[made] = held, order
            new_points[used : used + count] = buffer[:count, : 1 + planes]
            facts[made, 0], facts[made, 1] = used, used + count
            facts[made, 2], facts[made, 3] = label, mask
            facts[made, 4], facts[made, 5] = start, 1
            head[key] = np.int64(made)
            made += 1
            used += count
    return lost, compacted(new_codes, new_points, facts, orders, made)
