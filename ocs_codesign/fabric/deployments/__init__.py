"""fabric.deployments."""
