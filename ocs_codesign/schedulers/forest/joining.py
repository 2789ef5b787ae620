"""Forests of the same group that share the links, taken for one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import gcd, lcm
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.forest import Forest


def joined(forests: Sequence[Forest]) -> Forest:
    """The trees of all, each forest so often that its links bear it in the same time.

    Links of which every forest keeps to a part then bear all, and the rates add up.
    """
    first = forests[0]
    if len(forests) == 1:
        return first
    scale = Fraction(
        lcm(*(forest.scale.numerator for forest in forests)),
        gcd(*(forest.scale.denominator for forest in forests)),
    )
    num_trees = trees = paths = links = 0
    rows = []
    for forest in forests:
        times = int(scale / forest.scale)
        rows.append(
            (
                *(forest.root, forest.multiplicity * times),
                *(forest.tree + trees, forest.tail, forest.head),
                *(forest.path + paths, forest.units * times),
                *(forest.path_start[:-1] + links, forest.link),
            )
        )
        num_trees += forest.num_trees * times
        trees += len(forest.root)
        paths += len(forest.path_start) - 1
        links += len(forest.link)
    root, multiplicity, tree, tail, head, path, units, path_start, link = (
        np.concatenate(column) for column in zip(*rows, strict=True)
    )
    return replace(
        first,
        num_trees=num_trees,
        scale=scale,
        root=root,
        multiplicity=multiplicity,
        tree=tree,
        tail=tail,
        head=head,
        path=path,
        units=units,
        path_start=np.append(path_start, links),
        link=link,
    )
