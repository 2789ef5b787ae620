"""Files: designs, fabrics and bundles saved and loaded, graphs of other tools, traces read."""

from ocs_codesign.bundle.check.bundle import BundleVerdict, check_bundle
from ocs_codesign.bundle.write.bundle import write_bundle
from ocs_codesign.formats.designs.design_files import (
    LoadedDesign,
    LoadedProgram,
    load_design,
    save_design,
    save_program,
)
from ocs_codesign.formats.fabric.example import example_text
from ocs_codesign.formats.fabric.fabric_files import (
    fabric_json_schema,
    fabric_text,
    load_fabric,
    parse_fabric,
    save_fabric,
)
from ocs_codesign.formats.graphs.graph_files import (
    EXPORTERS,
    IMPORTERS,
    GraphFacts,
    graph_facts,
    import_graph,
)
from ocs_codesign.formats.graphs.networkx_graph import from_networkx, to_networkx
from ocs_codesign.formats.trace.trace_files import read_trace
from ocs_codesign.formats.workload.workload_files import (
    load_workload,
    parse_workload,
    workload_json_schema,
)

__all__ = [
    "EXPORTERS",
    "IMPORTERS",
    "BundleVerdict",
    "GraphFacts",
    "LoadedDesign",
    "LoadedProgram",
    "check_bundle",
    "example_text",
    "fabric_json_schema",
    "fabric_text",
    "from_networkx",
    "graph_facts",
    "import_graph",
    "load_design",
    "load_fabric",
    "load_workload",
    "parse_fabric",
    "parse_workload",
    "read_trace",
    "save_design",
    "save_fabric",
    "save_program",
    "to_networkx",
    "workload_json_schema",
    "write_bundle",
]
