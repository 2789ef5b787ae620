"""The example files: a fabric that fits, and neighbours of it that show two swapped fibres."""

from __future__ import annotations

import csv
from pathlib import Path

from ocs_codesign.cli import main

EXAMPLES = Path(__file__).resolve().parent.parent / "ocs_codesign" / "examples"
FABRIC, NEIGHBOURS = EXAMPLES / "fabric64.yaml", EXAMPLES / "neighbours.csv"
GENERATORS = "(4, 20, 36, 52), (3, 13, 29, 61), (14, 30, 46, 62), (19, 35, 45, 51)"
DESIGN = f"moe=Lift(Dihedral(8), ({GENERATORS}))"
SWAPPED = {"host04": "host09", "host09": "host04"}


def test_two_swapped_fibres_are_found_and_nothing_else(tmp_path, capsys):
    out = tmp_path / "moe"
    assert main(["deploy", DESIGN, "--fabric", str(FABRIC), "--out", str(out)]) == 0
    capsys.readouterr()
    assert main(["verify-bundle", str(out), "--observed", str(NEIGHBOURS)]) == 1
    text = capsys.readouterr().out
    assert "Not valid: 2 findings." in text
    assert "swapped: host04 p0 hears host13 p0, it should hear host00 p0" in text
    assert "swapped: host09 p0 hears host00 p0, it should hear host13 p0" in text
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
