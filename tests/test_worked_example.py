"""The example files: a fabric that fits, and neighbours of it that show two swapped fibres."""

from __future__ import annotations

import csv

from folders import EXAMPLES

from ocs_codesign.faces.cli import main

FABRIC, NEIGHBOURS = EXAMPLES / "fabric64.yaml", EXAMPLES / "neighbours.csv"
GENERATORS = (
    "(38, 46, 55, 62), (2, 10, 18, 26), (37, 45, 53, 60), (3, 11, 19, 27), "
    "(37, 45, 53, 61), (38, 46, 54, 62), (2, 3, 26, 27), (10, 11, 18, 19)"
)
DESIGN = f"moe=Lift(Cyclic(8), ({GENERATORS}))"
SWAPPED = {"host04": "host09", "host09": "host04"}


def test_two_swapped_fibres_are_found_and_nothing_else(tmp_path, capsys):
    out = tmp_path / "moe"
    assert main(["deploy", DESIGN, "--fabric", str(FABRIC), "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["verify-bundle", str(out), "--observed", str(NEIGHBOURS)]) == 1
    text = capsys.readouterr().out
    assert "Not valid: 2 findings." in text
    assert "swapped: host04 p0 hears host30 p0, it should hear host10 p0" in text
    assert "swapped: host09 p0 hears host10 p0, it should hear host30 p0" in text
    # With the fibres put back, everything is as it should be.
    with NEIGHBOURS.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    mended = tmp_path / "mended.csv"
    with mended.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerow(header)
        for host, port, *remote in rows:
            here = SWAPPED.get(host, host) if port == "p0" else host
            csv.writer(file).writerow([here, port, *remote])
    assert main(["verify-bundle", str(out), "--observed", str(mended)]) == 0
    assert "256 links, as observed" in capsys.readouterr().out
