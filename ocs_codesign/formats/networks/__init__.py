"""Network formats: hosts, switches and links as JSON, YAML, edge lists, node-link JSON, GraphML."""
