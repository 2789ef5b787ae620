"""Files: designs and fabrics saved and loaded, graphs of other tools, traces read."""

from ocs_codesign.export.design_files import (
    LoadedDesign,
    LoadedProgram,
    load_design,
    save_design,
    save_program,
)
from ocs_codesign.export.fabric_example import example_text
from ocs_codesign.export.fabric_files import (
    fabric_json_schema,
    fabric_text,
    load_fabric,
    parse_fabric,
    save_fabric,
)
from ocs_codesign.export.graph_files import (
    EXPORTERS,
    IMPORTERS,
    GraphFacts,
    graph_facts,
    import_graph,
)
from ocs_codesign.export.networkx_graph import from_networkx, to_networkx
from ocs_codesign.export.trace_files import read_trace

__all__ = [
    "EXPORTERS",
    "IMPORTERS",
    "GraphFacts",
    "LoadedDesign",
    "LoadedProgram",
    "example_text",
    "fabric_json_schema",
    "fabric_text",
    "from_networkx",
    "graph_facts",
    "import_graph",
    "load_design",
    "load_fabric",
    "parse_fabric",
    "read_trace",
    "save_design",
    "save_fabric",
    "save_program",
    "to_networkx",
]
