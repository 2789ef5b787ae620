"""A tuner plug-in of NCCL in C, generated from a book: the rules of its tuner without a file.

``NCCL_TUNER_PLUGIN`` names the compiled library. It has the interfaces 4, 5 and 6 of tuners, sets
the cost of what a rule takes to 0, if NCCL can take it at all, and always succeeds: an error of a
tuner fails the collective.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ocs_codesign.interop.nccl.tuner import ALGORITHMS, COLLECTIVES, PROTOCOLS, rules_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ocs_codesign.core.plans import Book
    from ocs_codesign.interop.nccl.tuner import TunerRule
    from ocs_codesign.interop.registry import Contents

_BEFORE = """\
/* NCCL's tuner for {name}, made by ocs-codesign.
   cc -shared -fPIC -O2 -o libnccl-tuner-{name}.so {name}.tuner.c
   NCCL_TUNER_PLUGIN=$PWD/libnccl-tuner-{name}.so ... */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Of NCCL's plug-in interface: an error here would fail the collective, so that there is none. */
enum {{ SUCCESS = 0 }};

struct rule {{
    int collective; /* broadcast 0, reduce 1, allgather 2, reduce-scatter 3, allreduce 4 */
    uint64_t from_bytes, to_bytes;
    int algorithm, protocol, channels; /* NCCL's own number of channels is 0 */
    int nodes, ranks;                  /* -1 is any */
}};

static const struct rule rules[] = {{
"""

_AFTER = """\
};

struct job {
    uint64_t ranks, nodes;
};

static int begin(void **context, size_t ranks, size_t nodes) {
    struct job *job = malloc(sizeof *job);
    if (job) {
        job->ranks = ranks;
        job->nodes = nodes;
    }
    *context = job;
    return SUCCESS;
}

static int holds(int wanted, uint64_t number) {
    return wanted < 0 || (uint64_t)wanted == number;
}

/* The table has a row for every algorithm; a cell below 0 cannot be taken, the least is taken. */
static int choose(void *context, int collective, size_t bytes, int operations, float **costs,
                  int algorithms, int protocols, int registered, int *channels) {
    const struct job *job = context;
    float *table = (float *)costs;
    (void)operations;
    (void)registered;
    *channels = 0;
    for (size_t at = 0; job && at < sizeof rules / sizeof *rules; at++) {
        const struct rule *rule = rules + at;
        if (rule->collective != collective || bytes < rule->from_bytes || bytes > rule->to_bytes ||
            !holds(rule->nodes, job->nodes) || !holds(rule->ranks, job->ranks))
            continue;
        if (rule->algorithm < algorithms && rule->protocol < protocols) {
            float *cell = table + rule->algorithm * protocols + rule->protocol;
            if (*cell >= 0) {
                *cell = 0;
                *channels = rule->channels;
            }
        }
        break;
    }
    return SUCCESS;
}

static int end(void *context) {
    free(context);
    return SUCCESS;
}

static int begin_4(size_t ranks, size_t nodes, void *log, void **context) {
    (void)log;
    return begin(context, ranks, nodes);
}

static int begin_5(void **context, uint64_t communicator, size_t ranks, size_t nodes, void *log,
                   void *domains, void *constants) {
    (void)communicator, (void)log, (void)domains, (void)constants;
    return begin(context, ranks, nodes);
}

typedef int choose_t(void *, int, size_t, int, float **, int, int, int, int *);
typedef int begin_5_t(void **, uint64_t, size_t, size_t, void *, void *, void *);

const struct {
    const char *name;
    int (*init)(size_t, size_t, void *, void **);
    choose_t *choose;
    int (*end)(void *);
} ncclTunerPlugin_v4 = {"ocs-codesign", begin_4, choose, end};

const struct {
    const char *name;
    begin_5_t *init;
    choose_t *choose;
    int (*end)(void *);
} ncclTunerPlugin_v5 = {"ocs-codesign", begin_5, choose, end};

const struct {
    const char *name;
    begin_5_t *init;
    choose_t *choose;
    int (*end)(void *);
    void *chunk_size; /* NCCL's own where there is none */
} ncclTunerPlugin_v6 = {"ocs-codesign", begin_5, choose, end, NULL};
"""


def plugin_text(rules: Sequence[TunerRule], name: str) -> str:
    """The source of a plug-in with these rules, of which the first that matches counts."""
    known = tuple(COLLECTIVES.values())
    lines = [
        "    {"
        f"{known.index(rule.collective)}, {rule.from_bytes}u, {rule.to_bytes}u, "
        f"{ALGORITHMS.index(rule.algorithm)}, {PROTOCOLS.index(rule.protocol)}, "
        f"{rule.num_channels}, {rule.num_servers}, {rule.num_ranks}"
        f"}}, /* {rule.collective}: {rule.algorithm} {rule.protocol} */\n"
        for rule in rules
    ]
    return _BEFORE.format(name=name) + "".join(lines) + _AFTER


def write_plugin(book: Book, name: str) -> Contents:
    """``NAME.tuner.c`` of a book; the number of channels is left to NCCL."""
    rules = rules_of(book, num_channels=0, largest_bytes=2**64 - 1)
    return {f"{name}.tuner.c": plugin_text(rules, name).encode()}
