"""All-to-all: every node sends a distinct message of M/N to every other node.

``throughput`` finds the least time when messages may split over paths, with a proof of how good it
is; ``stepped_plan`` makes schedules for hosts that store and forward, ``path_table`` and its kin
tables of paths for fabrics that route, which ``dependency_cycle`` checks for deadlock. Times are in
units of M/B."""
