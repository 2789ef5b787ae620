"""Builders of networks: direct links, stars, fat trees, boxes of hosts, tori and meshes."""
