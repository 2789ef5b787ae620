"""The command line as a whole: start-up, usage errors, exit codes, interruption, odd outputs."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import click
import pytest
from folders import EXAMPLES
from interrupts import interrupted

import ocs_codesign
from ocs_codesign.core.collective import WITHOUT_PARAMETERS
from ocs_codesign.core.progress import tell
from ocs_codesign.faces.answers.declared import SCHEMA_FILE
from ocs_codesign.faces.cli import COMMANDS, app, main
from ocs_codesign.faces.cli.build import ROOTED
from ocs_codesign.faces.cli.progress import Progress, progress
from ocs_codesign.schedules.registry import SCHEDULERS

HEAVY = {"numpy", "rich", "matplotlib", "networkx", "numba", "pandas", "scipy", "highspy"}


def run(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ocs_codesign", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
        check=False,
        **options,
    )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([c, "-h"] for c in COMMANDS)])
def test_help_imports_nothing_heavy(arguments):
    script = (
        "import sys\nfrom ocs_codesign.faces.cli import main\n"
        f"code = main({arguments!r})\n"
        "sys.stderr.write(' '.join(sys.modules))\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0
    assert done.stdout
    loaded = set(done.stderr.split())
    assert not HEAVY & loaded
    assert arguments[0] in COMMANDS or "ocs_codesign.faces.cli.commands" not in loaded


def test_version_and_module_entry_point():
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"ocs-codesign {ocs_codesign.__version__}\n")


def test_choices_are_those_of_the_library():
    for name in ("frontier", "cost", "build"):
        (option,) = (p for p in app.get_command(None, name).params if p.name == "collective")
        rooted = {"cost": ["broadcast", "reduce"], "build": [*ROOTED]}.get(name, [])
        kinds = [kind.name for kind in WITHOUT_PARAMETERS]
        assert list(option.type.choices) == kinds + rooted
    (option,) = (p for p in app.get_command(None, "build").params if p.name == "scheduler")
    assert tuple(option.type.choices) == ("best", *SCHEDULERS)


def test_every_command_writes_json():
    pending = [app.get_command(None, name) for name in COMMANDS]
    while pending:
        command = pending.pop()
        if isinstance(command, click.Group):
            pending += command.commands.values()
        elif command.name not in ("example", "schema", "switch-agent"):  # files; answers a socket
            assert any("--json" in one.opts for one in command.params), command.name


USAGE = [
    (["nonsense"], "No such command 'nonsense'"),
    (["--nonsense"], "No such option '--nonsense'"),
    (["cost", "--recip"], "No such option '--recip': did you mean "),
    (["fabric", "chek"], "No such command 'chek': did you mean check? (try 'ocs-codesign fabric"),
    (["cost", "Complete(4)", "--message"], "'--message' needs a value (try 'ocs-codesign cost"),
    (["cost", "Complete(4)", "--wide=3"], "'--wide' takes no value"),
    (["plan", "--nodes", "x"], "'--nodes': 'x' is not a whole number from 2 to 1048576 (try"),
    (["catalogue", "export"], "Missing option '--format': one of csv, parquet, json (try"),
    (["frontier"], "give --nodes and --degree, or --graph FILE"),
    (["frontier", "--nodes", "x", "--degree", "4"], "'x' is not a range"),
    (["frontier", "--nodes", "1", "--degree", "1"], "1 nodes"),
    (["frontier", "--nodes", "-8", "--degree", "4"], "'-8' is not a range"),
    (["frontier", "--nodes", "8", "--degree", "0"], "'0' is not a range"),
    (["frontier", "--nodes", "8", "--degree", "4", "--collective", "gather"], "'gather'"),
    (["frontier", "--nodes", "8", "--degree", "4", "--alpha", "10"], "'10' has no unit"),
    (["frontier", "--nodes", "8", "--degree", "4", "--alpha", "1us"], "only given together"),
    (["frontier", "--nodes", "8", "--degree", "4", "--message", "1MB"], "only given together"),
    (["frontier", "--nodes", "8", "--degree", "4", "--plot", "x.gif"], "'.gif' is none of them"),
    (["frontier", "--nodes", "8", "--degree", "4", "--plot", "/no/x.png"], "no such directory"),
    (["cost"], "give either a RECIPE or --graph FILE"),
    (["cost", "Complete(4)", "--graph", "x"], "give either a RECIPE or --graph FILE"),
    (["cost", "Complete(4)", "Complete(5)"], "unexpected extra argument"),
    (["cost", ""], "a recipe is a text"),
    (["cost", "Complete(4"], "its parentheses do not match"),
    (["cost", "#zz"], "a handle is # and 4 hexadecimal digits"),
    (["cost", "mine.graphml"], "is it a file? Give --graph mine.graphml"),
    (["cost", "Complet(4)"], "did you mean Complete?"),
    (["cost", "Complete(1)"], "must be an integer of at least 2"),
    (["cost", "Complete(999999)", "--collective", "alltoall"], "too many links"),
    (["cost", "__import__('os').system('true')"], "not allowed in a recipe"),
    (["cost", 'Named("nobody")'], "nobody"),
    (["cost", "--graph", "no-such-file"], "no-such-file: no such file or directory"),
    (["cost", "--graph", "."], "is a directory"),
    (["cost", "--graph", "x\x01y"], "no such file"),
    (["cost", "Complete(4)", "--json", "."], "is a directory, not a file"),
    (["cost", "Complete(4)", "--json", "no/x.json"], "there is no such directory"),
    (["build", "Complete(4)"], "Missing option '--out'"),
    (["build", "Complete(4)", "--out", "-"], "cannot go to standard output"),
    (["build", "--graph", "x", "--scheduler", "expansion", "--out", "d"], "needs a RECIPE"),
    (
        ["build", "GeneralizedKautz(2, 99999)", "--out", "d", "--scheduler", "bfb"],
        "about 9,999,800",
    ),
    (
        ["build", "--network", "star(3,1)", "-c", "alltoall", "--max-steps", "2", "--out", "d"],
        "--max-steps is for links between hosts: this network has switches",
    ),
    (
        [
            "build",
            "--network",
            "star(3,1)",
            "-c",
            "gather",
            "-m",
            "1B",
            "--latency",
            "0s",
            "-o",
            "d",
        ],
        "what a gather takes is not compared",
    ),
    (["topology", "Complete(4)", "--format", "gexf"], "'gexf' is not one of"),
    (["topology", "Complete(4)", "--json", "-"], "needs --out FILE"),
    (["topology", "Complete(4)", "--json", "a", "--out", "./a"], "go to the same file"),
    (["import", "no-such-file"], "no such file"),
    (["import", "."], "is a directory"),
    (["verify"], "Missing argument"),
    (["verify", "no-such-file"], "no-such-file: no such file or directory"),
    (["verify", "."], "there is no schedule.npz in this directory"),
    (["verify", "/dev/null"], "pipes and devices are not read"),
]


@pytest.mark.usefixtures("other_words")
@pytest.mark.parametrize(("arguments", "reason"), USAGE, ids=[" ".join(u[0])[:60] for u in USAGE])
def test_bad_usage_is_one_sentence_and_code_2(capsys, tmp_path, monkeypatch, arguments, reason):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert reason in err
    assert os.listdir(tmp_path) == []


def test_no_command_shows_help_and_code_2(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "frontier" in err


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("two\n  lines"), "two lines"),
        (RuntimeError(), "RuntimeError"),
        (RecursionError("too deep"), "too deep"),
        (MemoryError(), "not enough memory"),
        (MemoryError("Unable to allocate 8 GiB"), "not enough memory (Unable to allocate 8 GiB)"),
        (OSError(28, "No space left on device", "f"), "f: no space left on device"),
        (OSError("odd"), "odd"),
    ],
)
def test_errors_become_one_sentence(capsys, monkeypatch, error, sentence):
    def fail(*_args, **_kwargs):
        raise error

    monkeypatch.setattr("ocs_codesign.schedules.design.measure", fail)
    assert main(["cost", "Complete(4)"]) == 2
    assert capsys.readouterr() == ("", f"Error: {sentence}\n")


def test_bugs_are_not_hidden(monkeypatch):
    def fail(*_args, **_kwargs):
        raise KeyError("a bug")

    monkeypatch.setattr("ocs_codesign.schedules.design.measure", fail)
    with pytest.raises(KeyError):
        main(["cost", "Complete(4)"])


@pytest.mark.parametrize(
    ("line", "option"),
    [
        (["frontier", "--nodes", "8", "--degree", "4", "--alpha", "1us"], "--alpha"),
        (["catalogue", "find", "--nodes", "8", "--degree", "4", "--max-steps", "3"], "--max-steps"),
        (["cost", "Complete(4)", "--max-steps", "3"], "--max-steps"),
    ],
)
def test_no_value_is_lost_in_silence(capsys, line, option):
    assert main([*line, option, "4"]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"Error: {option} is given 2 times: it has one value (try ")


def test_examples_are_written_once_and_replace_nothing(capsys, tmp_path):
    assert main(["example", str(tmp_path / "new")]) == 0
    out = capsys.readouterr().out
    names = {SCHEMA_FILE, *(path.name for path in EXAMPLES.iterdir())}
    assert {path.name for path in (tmp_path / "new").iterdir()} == names
    for path in EXAMPLES.iterdir():
        assert path.name in out
        assert (tmp_path / "new" / path.name).read_bytes() == path.read_bytes()
    (tmp_path / "new" / "trace.csv").unlink()
    assert main(["example", str(tmp_path / "new"), "--json", "-"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert [file["file"] for file in files if file["new"]] == ["trace.csv"]
    (tmp_path / "new" / "trace.csv").write_text("mine", encoding="utf-8")
    (tmp_path / "new" / "steps.csv").unlink()
    assert main(["example", str(tmp_path / "new")]) == 2
    assert "trace.csv is there already and is another file" in capsys.readouterr().err
    assert not (tmp_path / "new" / "steps.csv").exists()
    assert main(["example", str(tmp_path / "new" / "trace.csv")]) == 2
    assert "is a file: the examples go into a directory" in capsys.readouterr().err


HUGE = "9" * 5000


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            ["catalogue", "find", "--nodes", HUGE[:30], "--degree", "4"],
            "is not a range of whole numbers",
        ),
        (["catalogue", "find", "--nodes", HUGE, "--degree", "4"], "[...]"),
        (["cost", f"UniRing(1, {HUGE})"], "cannot read 'UniRing(1, 999"),
        (["sweep", "--nodes", "2-99999999999", "--catalogue", "c"], "numbers go up to 1048576"),
    ],
)
def test_huge_numbers_get_a_short_sentence(capsys, line, said):
    assert main(line) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert len(error) < 1300


def test_interruption(capsys, monkeypatch):
    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("ocs_codesign.schedules.design.measure", interrupt)
    assert main(["cost", "Complete(4)"]) == 130
    out, err = capsys.readouterr()
    assert (out, err.strip()) == ("", "Interrupted: nothing was written.")


@pytest.mark.parametrize(("cause", "is_bug"), [(KeyboardInterrupt(), False), (None, True)])
def test_interruption_of_a_kernel(monkeypatch, cause, is_bug):
    def fail(*_args, **_kwargs):
        raise SystemError("returned a result with an exception set") from cause

    monkeypatch.setattr("ocs_codesign.schedules.design.measure", fail)
    with pytest.raises(SystemError) if is_bug else nullcontext():
        assert main(["cost", "Complete(4)"]) == 130


INTERRUPTED_WHILE = {
    "building": """
import ocs_codesign.faces.cli.progress as progress
def hear(self, phase, done, total):
    print("ready", flush=True)
    wait_for_ctrl_c()
progress.Progress.hear = hear
""",
    "writing": """
import zipfile
write = zipfile.ZipFile.writestr
def slow(self, *args, **kwargs):
    write(self, *args, **kwargs)
    print("ready", flush=True)
    wait_for_ctrl_c()
zipfile.ZipFile.writestr = slow
""",
    "verifying": """
import ocs_codesign.schedules.design as design
def slow(schedule, **_):
    print("ready", flush=True)
    wait_for_ctrl_c()
design.verify = slow
""",
}


@pytest.mark.parametrize("there_is_a_design", [False, True])
@pytest.mark.parametrize("moment", INTERRUPTED_WHILE)
def test_ctrl_c_leaves_nothing_behind(tmp_path, moment, there_is_a_design):
    if there_is_a_design:
        assert main(["build", "Complete(4)", "--out", str(tmp_path / "d")]) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    script = (
        f"import sys\n{INTERRUPTED_WHILE[moment]}\nfrom ocs_codesign.faces.cli import main\n"
        "sys.exit(main(['build', 'GeneralizedKautz(4, 1024)', '--out', 'd', '--json', 'j']))"
    )
    code, _, err = interrupted(script, tmp_path)
    assert (code, err) == (130, "Interrupted: nothing was written.")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert os.listdir(tmp_path) == (["d"] if there_is_a_design else [])


def test_json_on_stdout_stands_alone(tmp_path):
    done = run("cost", "Complete(4)", "--json", "-", cwd=tmp_path)
    assert json.loads(done.stdout)["steps"] == 1
    assert done.stderr == ""
    assert os.listdir(tmp_path) == []


def test_json_to_devices_leaves_them_devices(capsys):
    assert main(["cost", "Complete(4)", "--json", os.devnull]) == 0
    assert not stat.S_ISREG(Path(os.devnull).stat().st_mode)
    capsys.readouterr()


def test_a_reader_may_leave_early():
    command = f'"{sys.executable}" -m ocs_codesign topology "UniRing(1, 50000)" | head -n 1'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.stdout == "# UniRing(1, 50000)\n"
    assert "Traceback" not in done.stderr


def test_a_narrow_encoding_loses_signs_not_the_answer():
    done = run("cost", "Line(Complete(3), 2)", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "Line(Line(Complete(3)))" in done.stdout


def test_piped_tables_are_plain_and_complete():
    recipe = "Product(" + ", ".join(["UniRing(1, 2)"] * 8) + ")"
    done = run("cost", recipe, env={**os.environ, "COLUMNS": "40"})
    assert recipe in done.stdout
    assert "\x1b" not in done.stdout
    assert not any(line.endswith(" ") for line in done.stdout.splitlines())


def test_progress_is_silent_when_nobody_watches(capsys, monkeypatch):
    monkeypatch.setattr("ocs_codesign.faces.cli.progress.DELAY_S", 0)
    with progress("Working"):
        tell(1, 2)
    assert capsys.readouterr() == ("", "")


def test_long_work_says_now_and_then_what_it_does_where_no_terminal_shows_it(capsys, monkeypatch):
    monkeypatch.setattr("ocs_codesign.faces.cli.progress.SILENCE_S", 0.01)
    said = ""
    with progress("Working"):
        tell(1, 2000)
        while "1 of 2,000" not in said and said.count("\n") < 1000:
            said += capsys.readouterr().err
    assert "Working, 1 of 2,000: 0 s so far\n" in said
    assert capsys.readouterr().out == ""


def test_progress_appears_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = Progress("Working")
    shown.hear(None, 0, 10)
    shown.show()
    shown.hear("Closing [bold]", 5, 10)
    shown.close()
    shown.show()
    out, err = capsys.readouterr()
    assert out == ""
    assert "Working" in err
    assert "Closing [bold]" in err
