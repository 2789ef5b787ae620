"""One question, one answer: every command that can be asked about a network says the same."""

import json
from fractions import Fraction

import pytest

from ocs_codesign.core.networks.registry import NETWORKS
from ocs_codesign.faces.cli import main

BUILDERS = {
    "direct": "direct(Torus((3, 3)), 10)",
    "torus": 'torus((3, 2), (10, 5), 0, "Gbps")',
    "mesh": 'mesh((3, 2), (50, 100), (1000, 500), "GiB/s")',
    "star": 'star(5, (10, 10, 10, 7, 10), 500, "GB/s")',
    "fat_tree": 'fat_tree((3, 2), (1, 2), (10, 10), (500, 700), "Gbps")',
    "boxes": "boxes(3, 2, 5, 2)",
    "leaf_spine": "leaf_spine(3, 3, 2, 4, 3)",
    "a100": "a100(2)",
    "h100_rail": "h100_rail(2)",
    "mi250": "mi250(1)",
    "dgx1": "dgx1()",
    "ndv2": "ndv2(1)",
    "dgx2": "dgx2(1)",
    "servers": "servers(2, dgx1(), star(2, 1))",
    "damaged": 'damaged(a100(1), ["h3"])',
}
COLLECTIVES = (
    *("allgather", "reduce-scatter", "allreduce", "alltoall", "broadcast", "reduce"),
    *("scatter", "gather"),
)
ASKED = ("allgather", "reduce-scatter", "allreduce", "alltoall")
MESSAGE, BYTES = "3MiB", 3 * 2**20


def said(capsys, *arguments):
    """The JSON of a command, with --bandwidth if the network has no unit."""
    code = main([*arguments, "--json", "-"])
    read = capsys.readouterr()
    if code == 2 and "give --bandwidth" in read.err:
        code = main([*arguments, "--bandwidth", "100GB/s", "--json", "-"])
        read = capsys.readouterr()
    assert code == 0, read.err
    return json.loads(read.out)


def test_every_builder_is_asked():
    assert set(BUILDERS) == set(NETWORKS)


STAR = 'star(5, 10, 90, "GB/s")'


@pytest.mark.parametrize("collective", ASKED)
@pytest.mark.parametrize("text", [STAR, "h100_rail(1)", BUILDERS["leaf_spine"]])
def test_the_same_bound_and_time_whoever_is_asked(capsys, tmp_path, text, collective):
    what = ("--collective", collective, "--message", MESSAGE)
    design = str(tmp_path / "design")
    compared = said(capsys, "compare", text, *what, "--workers", "1")["networks"][0]
    built = said(capsys, "build", "--network", text, *what, "--out", design)["compared"]
    unit, (bound,) = Fraction(compared["unit_Bps"]), compared["least_s"]
    played = said(capsys, "simulate", design, "--network", text, "--message", MESSAGE)
    assert built["least_s"] == [bound]
    assert played["bound_ns"] / 1e9 == pytest.approx(bound, rel=1e-12)
    chosen = built["best"][0]["entrant"]
    times = {each["entrant"]: each["times_s"] for each in built["entrants"]}
    assert played["time_ns"] / 1e9 == pytest.approx(times[chosen][0], rel=1e-9)
    assert bound <= times[chosen][0] * (1 + 1e-8)
    others = {each["entrant"]: each for each in compared["entrants"]}
    assert others[chosen]["classic"] or others[chosen]["times_s"] == times[chosen]
    # Rates and costs know bytes alone; a cut of a host has two links of latency before and behind.
    in_flight_s = 180e-9 if text == STAR and collective != "allreduce" else 0
    if collective == "alltoall":
        rates = said(capsys, "optimum", text, "--collective", collective)
        in_bytes = float(BYTES / (unit * Fraction(rates["algbw"])))
        assert in_bytes + in_flight_s == pytest.approx(bound, rel=1e-12)
        return
    rates = said(capsys, "optimum", text)
    algbw = {
        "allgather": rates["algbw"],
        "reduce-scatter": rates["reduce_scatter"]["algbw"],
        "allreduce": rates["allreduce"]["halves_rate"],
    }[collective]
    in_bytes = float(BYTES / (unit * Fraction(algbw)))
    assert in_bytes + in_flight_s == pytest.approx(bound, rel=1e-12)
    halves = said(capsys, "cost", "--network", text, *what)["halves"]
    sums = sum(half["messages"][0]["least_time"]["time_s"] for half in halves)
    assert sums + in_flight_s == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("collective", ASKED)
@pytest.mark.parametrize("recipe", ["Torus((3, 3))", "DirectedCirculant(7, (1, 2, 4))"])
def test_steps_and_bytes_take_the_same_whoever_is_asked(capsys, tmp_path, recipe, collective):
    """What a design takes on a fabric, in a job, by its cost, as built and on the clock."""
    hosts, degree = (9, 4) if recipe.startswith("Torus") else (7, 3)
    fabric, trace = tmp_path / "fabric.yaml", tmp_path / "trace.csv"
    assert main(["fabric", "example", "--nodes", str(hosts), "--planes", str(degree)]) == 0
    fabric.write_text(capsys.readouterr().out, "utf-8")
    trace.write_text(f"collective,message\n{collective},{MESSAGE}\n", "utf-8")
    what = ("--collective", collective, "--message", MESSAGE)
    model = ("--alpha", "10us", "--bandwidth", "400Gbps")
    (cost,) = said(capsys, "cost", recipe, *what, *model)["times_s"]
    ranked = said(capsys, "select", "--fabric", str(fabric), "--designs", recipe, *what)
    assert ranked["ranked"][0]["total_s_float"] == pytest.approx(cost, rel=1e-12)
    if collective == "alltoall":  # in one call of build in whole chunks, which may take more
        return
    book = ("--ranks", str(hosts), "--book", f"{collective}={recipe}")
    job = said(capsys, "iterate", str(trace), *book, *model)
    assert Fraction(job["period_exact_s"]) == Fraction(ranked["ranked"][0]["total_s"])
    design = str(tmp_path / "design")
    said(capsys, "build", recipe, *what[:2], "--out", design)
    rules = ("--latency", "10us", "--barrier", *model[2:])
    played = said(capsys, "simulate", design, "--message", MESSAGE, *rules)
    assert played["formula_ns"] / 1e9 == pytest.approx(cost, rel=1e-12)
    assert played["time_ns"] / 1e9 == pytest.approx(cost, rel=1e-4)


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter", "allreduce", "broadcast"])
@pytest.mark.parametrize(("hosts", "latency"), [(5, 300), (8, 0), (13, 700)])
def test_an_exported_trace_takes_what_simulate_says(
    capsys, tmp_path, hosts, latency, collective, parts
):
    """By ASTRA-sim's rules: exactly where nothing is added up."""
    network, design = f"star({hosts}, 100, {latency})", str(tmp_path / "design")
    build = ["build", "--network", network, "--collective", collective, "--parts", str(parts)]
    assert main([*build, "--out", design]) == 0
    capsys.readouterr()
    message = ("--message", "13MB", "--bandwidth", "100GB/s")
    clock = said(capsys, "simulate", design, "--network", network, *message, "--rules", "astra-sim")
    trace = said(capsys, "astra-sim", design, *message, "--latency", f"{latency}ns")
    if collective in ("allgather", "broadcast"):
        assert trace["own_ns"] == clock["time_ns"]
    else:
        assert clock["time_ns"] <= trace["own_ns"] <= 1.05 * clock["time_ns"]


def test_a_network_brings_its_bandwidth_to_every_command(capsys, tmp_path):
    text, design = "h100_rail(1)", str(tmp_path / "design")
    asked = ["--message", "1MiB", "--bandwidth", "100GB/s"]
    assert main(["build", "--network", text, "--out", design]) == 0
    for command in (
        ["build", "--network", text, "--out", design],
        ["cost", "--network", text],
        ["compare", text],
        ["simulate", design, "--network", text],
    ):
        capsys.readouterr()
        assert main([*command, *asked]) == 2
        assert "--bandwidth is for links without a unit: these have GB/s" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("name", BUILDERS)
def test_every_builder_and_collective_is_built_verified_and_exported(
    capsys, tmp_path, name, collective
):
    design, files = str(tmp_path / "design"), str(tmp_path / "files")
    command = ["build", "--network", BUILDERS[name], "--collective", collective, "--out", design]
    assert main(command) == 0, capsys.readouterr().err
    assert main(["verify", design]) == 0
    assert main(["export", design, "--format", "program-json", "--out", files]) == 0
