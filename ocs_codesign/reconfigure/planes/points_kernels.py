"""Compiled loops over polyhedra of times that planes can have reached.

A polyhedron is the convex hull of its points and all that is later. A point is (e, l_0, l_1, ...):
the last step ended at e, plane j has been free since l_j. Points are rows of float arrays.
"""

from __future__ import annotations

import numpy as np
from numba import njit

EPS = 1e-12
_TINY = 1e-13


@njit(cache=True)
def below(points, count, skip, target, width):
    """Whether a convex combination of points (but ``skip``) is nowhere later than ``target``.

    Phase 1 of the simplex method on the weights: width + 1 rows, so a few pivots.
    """
    for at in range(width):
        least = np.inf
        for one in range(count):
            if one != skip and points[one, at] < least:
                least = points[one, at]
        if least > target[at] + EPS:
            return False
    rows = width + 1
    columns = count + rows
    table = np.zeros((rows + 1, columns + 1))
    basis = np.empty(rows, dtype=np.int64)
    for row in range(rows):
        basis[row] = count + row
        table[row, count + row] = 1.0
        table[row, columns] = 1.0 if row == width else EPS
    for column in range(count):
        if column != skip:
            for row in range(width):
                table[row, column] = points[column, row] - target[row]
            table[width, column] = 1.0
            table[rows, column] = -1.0
    table[rows, columns] = -1.0
    for turn in range(400):
        entering, least = -1, -1e-12
        for column in range(columns - 1):  # the last one is the artificial weight
            if table[rows, column] < least:
                entering, least = column, table[rows, column]
                if turn > 50:
                    break
        if entering < 0:
            break
        leaving, ratio = -1, np.inf
        for row in range(rows):
            if table[row, entering] > _TINY:
                limit = table[row, columns] / table[row, entering]
                if limit < ratio or (limit == ratio and basis[row] < basis[leaving]):
                    leaving, ratio = row, limit
        if leaving < 0:
            break
        pivot = table[leaving, entering]
        for column in range(columns + 1):
            table[leaving, column] /= pivot
        for row in range(rows + 1):
            factor = table[row, entering]
            if row != leaving and factor != 0.0:
                for column in range(columns + 1):
                    table[row, column] -= factor * table[leaving, column]
        basis[leaving] = entering
        if -table[rows, columns] < EPS:
            return True
    return -table[rows, columns] < EPS


@njit(cache=True)
def earlier(one, other, width):
    """Whether a point is nowhere later than another."""
    for at in range(width):  # noqa: SIM110 - compiled
        if one[at] > other[at] + EPS:
            return False
    return True


@njit(cache=True)
def pruned(points, count, width):
    """Keep, in front, the points that are no later than combinations of others; their number."""
    kept = 0
    for at in range(count):
        useful = True
        for other in range(kept):
            if earlier(points[other], points[at], width):
                useful = False
                break
        if useful:
            left = 0
            for other in range(kept):
                if not earlier(points[at], points[other], width):
                    points[left] = points[other]
                    left += 1
            points[left] = points[at]
            kept = left + 1
    if kept <= 2:
        return kept
    at = 0
    while at < kept:
        if below(points, kept, at, points[at, :width], width):
            kept -= 1
            points[at] = points[kept]
        else:
            at += 1
    return kept


@njit(cache=True)
def lifted(points, count, column, floor, shift, width):
    """Raise ``column`` to at least ``floor`` column + shift in the whole polyhedron; -1 if full.

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
                for at in range(width):
                    start = points[one, at]
                    points[count, at] = start + weight * (points[other, at] - start)
                count += 1
    for one in range(count):
        points[one, column] = max(points[one, column], points[one, floor] + shift)
    return count


@njit(cache=True)
def served(label, count, planes, mask, dead, send, latency, early, strict, out):
    """The polyhedron after a step that the planes of ``mask`` serve, in ``out``; -1 if full.

    ``dead[j]`` is the dead time of plane j before it can serve. Columns of ``out`` after 1 + planes
    are when a plane can be done at least, if it has to arrive first. Planes that serve are
    interchangeable afterwards: those that leave early are the first ones. If not ``early``, none
    does. If ``strict``, a plane leaves after it has arrived; otherwise it only arrives before the
    step ends, which is as good where all changes take the same time: what then leaves before it
    arrives goes as well without that step.
    """
    width = 1 + planes
    for one in range(count):
        for at in range(width):
            out[one, at] = label[one, at]
        for plane in range(planes):
            out[one, width + plane] = label[one, 1 + plane] + dead[plane]
    for plane in range(planes):
        if (mask >> plane) & 1 and dead[plane] > 0.0:
            count = lifted(out, count, width + plane, 0, 0.0, width + planes)
            if count < 0:
                return -1
    number = 0
    for plane in range(planes):
        number += (mask >> plane) & 1
    corners = number if early else 1
    if count * corners > out.shape[0]:
        return -1
    for one in range(count - 1, -1, -1):
        begin = out[one, 0]
        work = send
        for plane in range(planes):
            if (mask >> plane) & 1 and dead[plane] > 0.0:
                work += out[one, width + plane] - begin
        for leaving in range(corners - 1, -1, -1):
            row = one * corners + leaving
            end = begin + latency + work / (number - leaving)
            rank = 0
            for plane in range(planes):
                last, done = out[one, 1 + plane], 0.0
                if (mask >> plane) & 1:
                    if dead[plane] > 0.0:
                        done = out[one, width + plane] + latency
                    last = begin + latency if rank < leaving else end
                    rank += 1
                out[row, 1 + plane], out[row, width + plane] = last, done
            out[row, 0] = end
    count *= corners
    for plane in range(planes):
        if (mask >> plane) & 1 and dead[plane] > 0.0:
            count = pruned(out, count, width + planes)
            if strict:
                count = lifted(out, count, 1 + plane, width + plane, 0.0, width + planes)
                if count > 0:
                    count = lifted(out, count, 0, 1 + plane, 0.0, width + planes)
            else:
                count = lifted(out, count, 0, width + plane, 0.0, width + planes)
            if count < 0:
                return -1
            out[:count, width + plane] = 0.0
    return count


@njit(cache=True)
def beats(one, one_count, other, other_count, width):
    """Whether everything in the other label is no earlier than something in this one."""
    for at in range(other_count):
        found = False
        for mine in range(one_count):
            if earlier(one[mine], other[at], width):
                found = True
                break
        if not found and (
            one_count == 1 or not below(one[:one_count], one_count, -1, other[at, :width], width)
        ):
            return False
    return True
