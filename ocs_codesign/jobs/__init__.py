"""Training jobs: what is computed and communicated, in which order, and on what cluster.

A JobGraph has computations, collectives and messages with what waits for what; models/ makes it of
transformers, recommenders and residual networks, layers of measured times. issue and on_links play
an iteration, policies reorder it, cluster_design/ chooses division, placement and topology
together, reconfigured/ lets circuits change inside an iteration, budgets share bandwidth. training/
says what a step takes on real accelerators, fitted on published runs.

Read job_graph, prices and issue, then models.building and cluster_design.planning.

>>> import ocs_codesign as oc
>>> draft = oc.jobs.JobDraft(2)
>>> computation = draft.compute(owner=0, ticks=7000)
>>> draft.graph()
JobGraph(1 nodes, 2 owners)
"""

from __future__ import annotations

from ocs_codesign.core.registry import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "budgets": "BudgetProblem allocate",
        "cluster_design.candidates": "Candidate Joining",
        "cluster_design.cluster": (
            "JobCluster PortPrices SearchSpace TrainedModel divisions memory_bytes"
        ),
        "cluster_design.group_loads": "RankPlacement placements",
        "cluster_design.outcomes": "JobOutcome",
        "cluster_design.planning": "CodesignPlan codesign",
        "files.job_cluster_files": "load_job_cluster load_room",
        "files.job_files": "load_job load_training",
        "files.step_files": "load_step",
        "fused": "Accelerator FusedOperator",
        "job_draft": "JobDraft",
        "job_graph": "JobGraph",
        "layers": "LayerTimes",
        "models.building": "Parallel",
        "models.layer": "Recommender ResidualNetwork Transformer",
        "policies": "compare_policies",
        "reconfigured.planning": "plan_iteration",
        "rank_orders": "rank_order ring_traffic",
        "reconfigured.prices": "configured",
        "training.division": "Division",
        "training.fitting": "calibrate_steps",
        "training.search": "rank_divisions",
        "training.room": "Room",
        "training.step": "estimate_step",
    },
)
