"""Co-design of topology and collective schedule for optically switched direct-connect clusters.

>>> import ocs_codesign as oc
>>> recipe = oc.parse("Line(CompleteBipartite(4))")
>>> oc.measure(recipe).cost
Cost(steps=3, t_b=Fraction(1, 1))
>>> oc.verify(oc.bfb(recipe.topology(), "allreduce")).cost
Cost(steps=6, t_b=Fraction(2, 1))

Names are loaded when they are first used, so importing the package is fast.
"""

from __future__ import annotations

from ocs_codesign.core.registry import offer, provide

__version__ = "0.1.0"

provide(
    {
        "recipe of a text": "ocs_codesign.graphs.text.as_recipe",
        "network of a text": "ocs_codesign.graphs.text.parse_network",
        "topology of a networkx graph": "ocs_codesign.graphs.formats.node_link.from_networkx",
        "networkx graph of a topology": "ocs_codesign.graphs.formats.node_link.to_networkx",
        "BFB": "ocs_codesign.schedules.breadth_first.assembly.bfb",
        "BFB loads": "ocs_codesign.schedules.breadth_first.loads.bfb_loads",
        "late arrivals": "ocs_codesign.schedules.stepped.arrivals.late_of_recipe",
        "stored allgather": "ocs_codesign.schedules.stored.stored_allgather",
        "job of Chakra traces": "ocs_codesign.interop.chakra.jobs.load_chakra_job",
        "job of GOAL": "ocs_codesign.interop.goal.load_goal_job",
        "fabric of a site": "ocs_codesign.jobs.files.site_files.fabric_of_site",
        "cluster of a site": "ocs_codesign.jobs.files.site_files.cluster_of_site",
        "job cluster of a site": "ocs_codesign.jobs.files.site_files.job_cluster_of_site",
        "site of a builder": "ocs_codesign.faces.sites.site_of_builder",
        "HTML of a value": "ocs_codesign.faces.notebook.html_of",
        "picture of a frontier": "ocs_codesign.faces.pictures.frontier.draw_frontier",
        "data frame of a value": "ocs_codesign.faces.data_frames.frame_of",
    }
)

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "core": (
            "Topology Network Routes Collective Demand Schedule Messages Forest Timed "
            "CircuitProgram Cost CostModel bound topology_bound direct torus mesh star fat_tree "
            "servers boxes damaged"
        ),
        "graphs": "Recipe parse parse_network import_graph",
        "verification": "Verdict verify verify_on verify_program check_forest",
        "schedules": (
            "Design build predict measure measure_topology bfb optimum forests contenders "
            "throughput alltoall_schedule exact_schedule synthesis simulate_transfers "
            "load_design save_design"
        ),
        "search": "Frontier frontier joint_frontier",
        "circuits": ("Change plan_legs plan_trace plan_planes plan_demand search_sequences"),
        "fabric": "Fabric load_fabric embed deploy select repair survivability check_bundle",
        "jobs": "JobGraph load_job codesign allocate",
        "faces": "draw_frontier write_bundle",
    },
    packages="core graphs verification schedules search circuits fabric jobs interop faces",
)
