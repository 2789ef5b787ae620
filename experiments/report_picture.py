"""The picture of a bundle's report: a host and a port have failed, spares have taken their places.

    python experiments/report_picture.py

Writes figures/report.png and figures/report.dark.png. Needs the extra `browser` and Chromium of the
system. What a browser draws depends on its version and on the fonts of the machine, so nothing
compares the bytes.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from explorer_picture import PICTURE, photograph

from ocs_codesign import parse
from ocs_codesign.fabric.deployments.day_two import repaired
from ocs_codesign.fabric.deployments.deploy import Failures, NamedRecipe, deploy
from ocs_codesign.fabric.files.fabric_files import load_fabric
from ocs_codesign.fabric.wiring import Port
from ocs_codesign.faces.web.report.report import write_bundle

RECIPE = "GeneralizedKautz(3, 16)"
FABRIC = """
version: 1
name: row-4
hosts: {count: 18, pattern: 'host{:02d}', first: 0, spares: 2}
planes:
- count: 3
  switches:
  - {profile: polatis-384, count: 1, ports: 24, spares: 4, port_model: simplex}
alpha: 10us
node_bandwidth: 400Gbps
losses: {connector_db: 0.25, circulator_db: 0.5, budget_db: DR4}
"""
LOST = Failures(("host03",), (Port("p1-s0", "A", 6),))


def main() -> None:
    """Deploy, lose, repair, and keep what the report shows."""
    with TemporaryDirectory() as place:
        path = Path(place) / "fabric.yaml"
        path.write_text(FABRIC, encoding="utf-8")
        wanted = [NamedRecipe("kautz", parse(RECIPE))]
        deployment, _ = repaired(deploy(load_fabric(path), wanted), LOST)
        write_bundle(deployment, Path(place) / "bundle")
        address = (Path(place) / "bundle" / "report.html").as_uri()
        photograph(f"{address}#state", "#switches svg", 1420, PICTURE.with_name("report.png"))


if __name__ == "__main__":
    main()
