"""Made by .ci/public_names.py: names and where they are defined."""

from ocs_codesign.faces.pictures.frontier import draw_frontier as draw_frontier
from ocs_codesign.faces.pictures.frontier import frontier_figure as frontier_figure
from ocs_codesign.faces.pictures.jobs import draw_changes as draw_changes
from ocs_codesign.faces.pictures.jobs import draw_job as draw_job
from ocs_codesign.faces.pictures.network import draw_network as draw_network
from ocs_codesign.faces.pictures.simulation import draw_transfers as draw_transfers
from ocs_codesign.faces.web.report.report import write_bundle as write_bundle
