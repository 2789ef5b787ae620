"""Graph formats: topologies as edge lists, GraphML, node-link JSON and DOT."""
