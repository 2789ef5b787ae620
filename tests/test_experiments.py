"""The experiments: every script runs at a small size, and the fast tables are those in figures/."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import dark_pictures
import numpy as np
import pytest
import run as runner
from folders import ROOT

import ocs_codesign

REPORTS = [*runner.FAST, *runner.SLOW, "generation_time", "greedy_table"]
TABLES = ["benchmark_bfb", "benchmark_forest", "benchmark_runtimes"]


def run(script: str, *arguments: str, cwd: Path = ROOT) -> str:
    """Standard output of a script in its own process, which must end well and warn of nothing."""
    command = [sys.executable, "-W", "error", str(ROOT / "experiments" / f"{script}.py")]
    done = subprocess.run(
        [*command, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def stored() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (ROOT / "figures").iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("name", REPORTS)
def test_a_run_writes_only_where_it_is_told_and_reproduces_the_table(name, tmp_path):
    """As far as that is fast: at small sizes where the whole table takes long."""
    before = stored()
    out = tmp_path / "made" / "here"
    quick = [] if name in runner.FAST else ["--quick"]
    table = run(name, *quick, "--out", str(out), cwd=tmp_path)
    assert sorted(path.name for path in out.iterdir()) == [f"{name}.csv", f"{name}.png"]
    assert (out / f"{name}.csv").read_text(encoding="utf-8") == table
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert stored() == before
    if name not in runner.BENCHMARKS:
        compare = runner.absence if quick else runner.difference
        assert compare(out / f"{name}.csv", runner.FIGURES / f"{name}.csv") == ""


@pytest.mark.parametrize("name", [*REPORTS, *TABLES])
def test_every_script_is_documented_and_has_its_table_and_picture(name):
    source = (ROOT / "experiments" / f"{name}.py").read_text(encoding="utf-8")
    assert f"python experiments/{name}.py [--quick]" in source
    lines = (ROOT / "figures" / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith(
        f"# python experiments/{name}.py, ocs_codesign {ocs_codesign.__version__}"
    )
    table = list(csv.DictReader(lines[1:]))
    assert table
    assert all(None not in row and None not in row.values() for row in table)
    assert name in TABLES or (ROOT / "figures" / f"{name}.png").is_file()


def test_white_becomes_dark_black_light_and_blue_stays_blue():
    pixels = np.array([[[255, 255, 255], [0, 0, 0], [107, 114, 128], [11, 95, 165]]], np.uint8)
    white, black, grey, blue = dark_pictures.darkened(pixels)[0].astype(int)
    assert white.max() < 30
    assert black.min() > 225
    assert white.mean() + 90 < grey.mean() < black.mean()
    assert blue[2] > blue[1] + 40 > blue[0] + 80


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(dark_pictures.shown()))
def test_every_picture_shown_has_its_dark_companion(name):
    folder = dark_pictures.FIGURES
    light, dark = (dark_pictures.read(folder / f"{name}{look}.png") for look in ("", ".dark"))
    assert light.shape == dark.shape
    if name in dark_pictures.PHOTOGRAPHS:
        assert dark.mean() < 64 < 192 < light.mean()
        return
    off = np.abs(dark_pictures.darkened(light).astype(int) - dark)
    assert off.mean() < 1, "python experiments/dark_pictures.py"


@pytest.mark.parametrize("name", ["generation_time", "greedy_table"])
def test_the_timings_say_that_they_are_timings(name):
    first = (ROOT / "figures" / f"{name}.csv").read_text(encoding="utf-8").splitlines()[0]
    assert "timings differ from run to run" in first


def test_the_runner_knows_every_script():
    scripts = {
        path.stem
        for path in (ROOT / "experiments").glob("*.py")
        if "parse_arguments(__doc__)" in path.read_text(encoding="utf-8")
    }
    assert scripts == set(REPORTS)
    assert set(REPORTS) <= {*runner.FAST, *runner.SLOW, *runner.BENCHMARKS}


def test_greedy_is_at_the_bound_and_never_slower_than_what_was_published():
    lines = (ROOT / "figures" / "greedy_table.csv").read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(lines[1:]))
    assert len(rows) > 25
    for row in rows:
        assert row["ticks"] == row["bound_ticks"], row["graph"]
        # What is published has four or five digits.
        assert float(row["tacos_over_ours"]) > 0.999, row["graph"]


def test_nothing_published_is_better_than_ours():
    lines = (ROOT / "figures" / "against_published.csv").read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(lines[1:]))
    published = [row for row in rows if row["side"] == "published"]
    assert {row["verdict"] for row in published} == {"better", "equal"}
    assert {(row["nodes"], row["degree"]) for row in rows if row["side"] == "ours"} == {
        (row["nodes"], row["degree"]) for row in published
    }
    # The source's table of N = 1024, d = 4 has this row at 11 steps and T_B 1.
    costs = {
        row["label"]: (row["steps"], row["t_b"]) for row in published if row["nodes"] == "1024"
    }
    assert costs["L(DBJMod(2,4)□²)"] == ("11", "1")


@pytest.mark.parametrize(
    ("checked", "said"),
    [
        ("['one', 'two']", ["figures/one.csv is reproduced", "figures/two.csv differs in line 2"]),
        (
            "['one'], ['two']",
            ["figures/one.csv is reproduced", "figures/two.csv lacks line 2 of the quick table"],
        ),
        (
            "[], ['one', 'no']",
            ["figures/one.csv is reproduced at small sizes", "figures/no.csv is missing"],
        ),
    ],
)
def test_the_runner_names_the_first_table_that_differs(tmp_path, checked, said):
    code = (
        "import sys; sys.path.insert(0, 'experiments'); import run; from pathlib import Path;"
        f"run.FIGURES = Path({str(tmp_path)!r}); run.run = lambda name, arguments, quiet:"
        f"(Path(arguments[1]) / f'{{name}}.csv').write_text('a\\nb\\n'); run.check({checked})"
    )
    (tmp_path / "one.csv").write_text("a\nb\n")
    (tmp_path / "two.csv").write_text("a\nc\n")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines() == said


def test_timings_cannot_be_checked():
    command = [sys.executable, "experiments/run.py", "--check", "--benchmarks"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "not reproducible" in done.stderr


def test_pictures_are_drawn_again_from_their_tables(tmp_path):
    code = (
        "import sys; sys.path.insert(0, 'experiments'); import run; from pathlib import Path;"
        f"run.FIGURES = Path({str(tmp_path)!r}); run.redraw(sys.argv[1])"
    )
    table = (runner.FIGURES / "greedy_table.csv").read_bytes()
    (tmp_path / "greedy_table.csv").write_bytes(table)
    sizes = {}
    for name in ("greedy_table", "worked_example", "nothing"):
        command = [sys.executable, "-W", "error", "-c", code, name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == (name != "greedy_table")
        said = "is drawn again" if name == "greedy_table" else "run the experiment"
        assert said in done.stdout + done.stderr
    for place in (tmp_path, runner.FIGURES):
        head = (place / "greedy_table.png").read_bytes()[:24]
        assert head.startswith(b"\x89PNG")
        sizes[place] = head[16:]
    assert sizes[tmp_path] == sizes[runner.FIGURES]
    assert (tmp_path / "greedy_table.csv").read_bytes() == table
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "greedy_table.csv",
        "greedy_table.png",
    ]


@pytest.mark.parametrize(
    ("text", "value"), [("", ""), ("7", 7), ("0.5", 0.5), ("7/8", "7/8"), ("False", False)]
)
def test_cells_become_what_they_were(text, value):
    assert (found := runner.value(text)) == value
    assert type(found) is type(value)
