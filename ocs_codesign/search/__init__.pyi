"""Made by .ci/public_names.py: names and where they are defined."""

from ocs_codesign.search.frontiers import frontier as frontier
from ocs_codesign.search.frontiers import joint_frontier as joint_frontier
from ocs_codesign.search.pareto import Frontier as Frontier
