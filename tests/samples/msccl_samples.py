"""Plans to write for runtimes, and ways to spoil what was written, one value at a time."""

from __future__ import annotations

import copy
import json
import re

from ocs_codesign.core.collective import Collective
from ocs_codesign.graphs.text import parse
from ocs_codesign.schedules.classic.registry import CLASSIC

ALLGATHER, REDUCE_SCATTER = Collective.ALLGATHER, Collective.REDUCE_SCATTER
ALLREDUCE = Collective.ALLREDUCE

RECIPES = (
    "UniRing(1, 4)",
    "UniRing(1, 5)",
    "UniRing(2, 3)",
    "BiRing(2, 7)",
    "Complete(6)",
    "Hypercube(3)",
    "Torus((3, 3))",
    "DirectedCirculant(8, (1, 3))",
    "GeneralizedKautz(2, 9)",
    "Line(CompleteBipartite(2))",
)
EXCHANGES = (("ring-relay", 5), ("bruck", 6), ("direct", 4), ("grid", 6))
CLASSICS = (
    ("bruck", "allgather", 7),
    ("pat", "allgather", 6),
    ("swing", "allreduce", 6),
    ("rabenseifner", "allreduce", 6),
    ("recursive-doubling-full", "allreduce", 6),
    ("double-binary-tree", "allreduce", 5),
    ("chain", "allreduce", 4),
    ("chain", "broadcast", 5),
    ("binomial", "broadcast", 7),
)


def plans():
    """Pairs of a name and a plan: recipes with three collectives, all-to-alls and classics."""
    for text in RECIPES:
        for collective in (ALLGATHER, REDUCE_SCATTER, ALLREDUCE):
            name = f"{text} {collective.name}"
            yield name, lambda t=text, c=collective: parse(t).expansion_schedule(c)
    exchanges = [(algorithm, "alltoall", ranks) for algorithm, ranks in EXCHANGES]
    for algorithm, kind, ranks in (*CLASSICS, *exchanges):
        name = f"{algorithm} {kind} {ranks}"
        yield name, lambda a=algorithm, k=kind, n=ranks: CLASSIC[a].messages(k, n)


def spoiled_xml(text: str, random) -> str:
    """An MSCCL file with one value of a step or threadblock changed, or one step lost or moved."""
    steps = list(re.finditer(r"<step [^>]*/>", text))
    at = int(random.integers(len(steps)))
    step = steps[at].group()
    way = int(random.integers(10))
    if way < 4:
        name = ("srcoff", "dstoff", "cnt", "deps")[way]
        step = re.sub(
            rf'{name}="(-?\d+)"',
            lambda m: f'{name}="{max(int(m[1]) + int(random.choice([-2, -1, 1, 2])), -1)}"',
            step,
        )
    elif way == 4:
        step = re.sub(r'depid="(-?\d+)"', f'depid="{int(random.integers(-1, 3))}"', step)
    elif way == 5:
        step = re.sub(r'hasdep="(\d)"', lambda m: f'hasdep="{1 - int(m[1])}"', step)
    elif way == 6:
        kinds = ("s", "r", "rcs", "rrc", "rrcs", "rrs", "cpy", "re")
        step = re.sub(r'type="\w+"', f'type="{random.choice(kinds)}"', step)
    elif way == 7:
        step = re.sub(r'srcbuf="\w"', f'srcbuf="{random.choice(list("ios"))}"', step)
        step = re.sub(r'dstbuf="\w"', f'dstbuf="{random.choice(list("ios"))}"', step)
    elif way == 8:
        peer = int(random.integers(4))
        blocks = list(re.finditer(r'(send|recv)="\d+"', text))
        block = blocks[int(random.integers(len(blocks)))]
        return text[: block.start()] + f'{block[1]}="{peer}"' + text[block.end() :]
    elif at + 1 < len(steps) and random.integers(2):
        after = steps[at + 1]
        moved = text[: steps[at].start()] + after.group() + step + text[after.end() :]
        return renumbered(moved)
    else:
        step = ""
    return renumbered(text[: steps[at].start()] + step + text[steps[at].end() :])


def renumbered(text: str) -> str:
    """The same file where the steps of every threadblock count from 0."""

    def block(match):
        numbers = iter(range(10**6))
        return re.sub(r' s="\d+"', lambda _: f' s="{next(numbers)}"', match.group())

    return re.sub(r"<tb .*?</tb>", block, text, flags=re.DOTALL)


def spoiled_plan(text: str, random) -> str:
    """An MSCCL++ plan with one index changed, or one operation lost, moved or of another name."""
    plan = copy.deepcopy(json.loads(text))
    gpu = plan["gpus"][int(random.integers(len(plan["gpus"])))]
    block = gpu["threadblocks"][int(random.integers(len(gpu["threadblocks"])))]
    ops = block["ops"]
    at = int(random.integers(len(ops)))
    op = ops[at]
    way = int(random.integers(8))
    buffers = [one for key in ("src_buff", "dst_buff") for one in op.get(key, ())]
    if way == 0:
        del ops[at]
    elif way == 1:
        ops.insert(int(random.integers(len(ops))), ops.pop(at))
    elif way == 2:
        ops.insert(at, copy.deepcopy(op))
    elif buffers and way < 6:
        one = buffers[int(random.integers(len(buffers)))]
        key = ("index", "size", "buffer_id", "type")[int(random.integers(4))]
        if key == "type":
            one.pop("buffer_id", None)
            one["type"] = str(random.choice(list("ios")))
        elif key in one:
            one[key] = max(0, one[key] + int(random.choice([-1, 1])))
    elif "channel_ids" in op:
        if random.integers(2):
            names = ("signal", "wait", "rlxsignal", "rlxwait", "nop")
            op["name"] = str(random.choice(names))
        else:
            op["channel_ids"] = [int(random.integers(2))]
    elif op["name"] in ("nop", "barrier"):
        del ops[at]
    return json.dumps(plan)
