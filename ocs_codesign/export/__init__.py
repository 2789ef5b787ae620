"""Files: designs saved and loaded, topologies written and read in the formats of other tools."""

from ocs_codesign.export.design_files import LoadedDesign, load_design, save_design
from ocs_codesign.export.graph_files import (
    EXPORTERS,
    IMPORTERS,
    GraphFacts,
    graph_facts,
    import_graph,
)
from ocs_codesign.export.networkx_graph import from_networkx, to_networkx

__all__ = [
    "EXPORTERS",
    "IMPORTERS",
    "GraphFacts",
    "LoadedDesign",
    "from_networkx",
    "graph_facts",
    "import_graph",
    "load_design",
    "save_design",
    "to_networkx",
]
