"""What makes schedules of a given graph or network, and the clock that plays them.

A scheduler takes a Task and makes a Schedule, Messages or Forests: breadth_first/ (BFB), stepped/
(exact and late programs, all-to-all in steps), paths/ (its flows on links between hosts),
exchange/ (on any network), classic/ (algorithms by name), forest/ (throughput-optimal trees) and
greedy/ (any network). design joins a recipe, its schedule and how its cost is known; registry
lists the schedulers.

Read design and registry, then breadth_first.loads and breadth_first.assembly. simulate/ is the
event loop, compare/ plays one against the other, files/ keeps designs.

>>> import ocs_codesign as oc
>>> oc.measure(oc.parse("Line(CompleteBipartite(4))")).cost
Cost(steps=3, t_b=Fraction(1, 1))
"""

from __future__ import annotations

from ocs_codesign.core.registry import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "breadth_first.assembly": "bfb",
        "breadth_first.loads": "bfb_loads",
        "classic.placement": "messages_on place",
        "design": "Design Known build build_topology measure measure_topology predict",
        "exchange.drift": "held_experts held_plans",
        "exchange.experts": "expert_counts expert_tokens moved_experts placed_experts",
        "exchange.optimum": "exchange_optimum",
        "exchange.paths": "exchange_paths",
        "exchange.sketches": "sketch_on",
        "files.designs": "load_design save_design save_program",
        "forest.building": "forests",
        "forest.choice": "contenders",
        "forest.optimum": "optimum",
        "forest.phases": "phased",
        "forest.pipeline": "Pipeline allreduce_optimum allreduce_pipelines",
        "greedy.synthesis": "Synthesis synthesis",
        "paths.certificates": "PathTable Throughput",
        "paths.channels": "up_down_table",
        "paths.tables": "dependency_cycle disjoint_path_table path_table",
        "paths.throughput": "throughput",
        "simulate.engine": "Simulated simulate_transfers",
        "simulate.making": "transfers_of_messages transfers_of_program transfers_of_schedule",
        "simulate.reasons": "critical_path idle_ticks",
        "simulate.transfers": "TimingRules Transfers",
        "stepped.alltoall": "alltoall_frontier alltoall_schedule stepped_plan",
        "stepped.answers": "SteppedAnswer",
        "stepped.arrivals": "ArrivalSteps late_arrivals",
        "stepped.exact": "exact_answers exact_frontier exact_schedule fractional_bound",
    },
)
